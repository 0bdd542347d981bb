#pragma once

#include "bench/raw_limits.hpp"
#include "cli/bench/bench_rdma_pages.hpp"
#include "cli/bench/bench_row.hpp"
#include "cli/command.hpp"
#include "cli/process.hpp"
#include "rdma/data_plane.hpp"
#include "rdma/verbs/verbs_transport.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace peercache::cli {

struct rdma_bench_options {
  std::string device; ///< The reader's device; empty: the first usable one.
  /// The server's device; empty: the usable one after the reader's, or the reader's own.
  std::string server_device;
  std::vector<std::uint64_t> sizes = {4u << 10, 64u << 10, 1u << 20};
  std::uint32_t rounds = 5;
  std::uint32_t depth = 128;               ///< Work requests that the queue pair holds.
  std::uint32_t calls = 1000;              ///< Calls of a latency measurement in one round.
  std::uint64_t batch_bytes = 64u << 20;   ///< Bytes of one call of a bandwidth measurement.
  std::uint64_t round_bytes = 1024u << 20; ///< Bytes of one round of a bandwidth measurement.
  bool check = false; ///< Whether the command ends with 1 when a target is missed.

  /// From this page size on the bandwidth of batches is measured, below it the latency of one page.
  static constexpr std::uint64_t bandwidth_from_bytes = 32u << 10;
};

/// The ports of the reader and of the server in one measurement.
struct rdma_bench_ports {
  rdma::verbs::port_report reader;
  rdma::verbs::port_report server;
};
/// Chooses the ports of the two ends among those that were found. Errors: `not_found`, with the
/// reason, when a named device is not there or none can be used.
result<rdma_bench_ports> choose_ports(const rdma_bench_options& options,
                                      const rdma::verbs::device_listing& found);

/// A process `peercache rdma-server` that this bench started. Threads, ownership: as child_process.
struct rdma_server_process {
  static result<rdma_server_process> start(const rdma_bench_options& options,
                                           const std::string& device);
  child_process process;
  std::uint16_t port = 0;
};

/// Reads the pages of an rdma_server_process by the data plane that nodes and clients use:
/// `submit`, then `poll` until the batch is complete, in the caller's thread.
/// Threads: one. Ownership: `memory` is lent and registered until the end. Errors: a page that ends
/// with another status than it should.
class rdma_bench_reader {
public:
  /// Opens the device and connects to the server. With `payload_only` pages are not validated, and
  /// so each read ends as `stale`.
  static result<std::unique_ptr<rdma_bench_reader>>
  open(const rdma_bench_options& options, const std::string& device, std::uint16_t port,
       std::span<std::byte> memory, bool payload_only);

  /// Prepares a batch of the pages [first, first + count) of `run`; their destinations lie one
  /// behind the other in `memory`.
  void prepare(const rdma_page_plan::run& run, std::uint32_t first, std::uint32_t count);
  /// Reads all pages of the prepared batch.
  result<void> read();
  /// Checks that the bytes of the last read are those of its pages.
  result<void> check_bytes() const;

  const rdma::rail_counters& counters() const noexcept { return rail_->counters; }

private:
  rdma_bench_reader() = default;

  std::unique_ptr<rdma::reader_rail> rail_;
  std::unique_ptr<rdma::channel_data_plane> plane_;
  std::span<std::byte> memory_;
  rdma_page_plan::run run_;
  std::uint32_t first_ = 0;
  rdma::read_batch batch_;
  rdma::clock::duration spin_{}; ///< How long a read polls after something moved before it sleeps.
  /// A recent time: the clock is read only every few turns.
  rdma::clock::time_point now_ = rdma::clock::now();
  std::uint32_t turns_ = 0;
  page_status wanted_ = page_status::hit;
};

/// Runs all measurements and returns their rows, in the order of the page sizes.
result<std::vector<bench_row>> run_rdma_bench(const rdma_bench_options& options);

/// The command `peercache rdma-server`: prints `port=N` and serves the pages of the plan until its
/// stdin ends.
exit_code serve_rdma_bench(const std::string& device, const std::vector<std::uint64_t>& sizes,
                           std::uint64_t run_bytes);

/// Adds the commands `peercache bench rdma` and `peercache rdma-server`.
void add_rdma_bench(command_line& line, CLI::App& bench);

} // namespace peercache::cli
