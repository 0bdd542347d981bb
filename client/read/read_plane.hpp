#pragma once

#include "client/values/client_options.hpp"
#include "common/result.hpp"
#include "metrics/samples.hpp"
#include "net/tls_context.hpp"
#include "rdma/data_plane.hpp"
#include "rdma/data_plane_loop.hpp"
#include "rdma/device_memory.hpp"
#include "rdma/peer_counters.hpp"
#include "rdma/read_lane.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace peercache::rdma {
struct reader_rail;
}

namespace peercache::client {

/// The data plane of a client process: one lane for each rail and one for TCP, each with a thread
/// (the data-plane actor) that runs it, in turns with callers of `read_now`. Threads: `lanes` and
/// `register_buffer` any; `run` one for each lane, until `stop`.
class read_plane {
public:
  /// Fails when `data_plane` is verbs and no device is usable.
  /// @param device a GPU's memory among the memory that is read into; null: there is none
  /// @param tls TLS of the connections to data ports; null: they are plain
  static result<std::unique_ptr<read_plane>>
  create(const client_options& options, std::shared_ptr<rdma::device_memory> device = nullptr,
         std::shared_ptr<net::tls_context> tls = nullptr);
  ~read_plane();

  std::span<const std::unique_ptr<rdma::read_lane>> lanes() const noexcept { return lanes_; }
  /// The chosen plane and the reason: "verbs: mlx5_0/1", "tcp: no RDMA device".
  const std::string& choice() const noexcept { return choice_; }
  bool has_rails() const noexcept { return !rails_.empty(); }
  std::size_t rails() const noexcept { return rails_.size(); }
  /// Adds what the rails and the TCP lane counted to the totals that this host's node is told.
  void add_to(metrics::samples& totals) const;

  /// Registers the memory with all rails, or with none; returns the first failure.
  result<void> register_buffer(std::span<std::byte> memory);
  void unregister_buffer(const std::byte* begin);

  /// Gives the TCP lane's plane to the calling thread, which has other things to do as well. From
  /// then on only this thread uses the lane, polls the plane and shuts it down, and nobody calls
  /// `run` for that lane. Null if there is no TCP lane. @pre nothing was submitted yet
  rdma::data_plane* take_tcp_plane();

  /// The body of a data-plane actor: returns after `stop`. @pre lane < lanes().size()
  void run(std::size_t lane) { loops_[lane]->run(stop_); }
  void stop() noexcept;

private:
  read_plane(std::shared_ptr<rdma::device_memory> device, std::shared_ptr<net::tls_context> tls);
  result<void> add_rail(const std::string& device, std::uint8_t port,
                        const client_options& options);
  result<void> add_tcp(const client_options& options);
  void add_lane(rdma::read_lane::kind how, std::string name,
                std::unique_ptr<rdma::data_plane> plane);

  const incarnation reader_; ///< The reader's name, the same on all rails.
  const std::string name_;
  /// Access to GPU memory; null: all memory is the host's.
  const std::shared_ptr<rdma::device_memory> device_;
  /// TLS of the connections to data ports; null: they are plain.
  const std::shared_ptr<net::tls_context> tls_;
  std::string choice_;
  /// Counts of the TCP lane by peer; declared before `planes_`, which use them.
  rdma::peer_counters tcp_peers_;
  /// The rails to read over; declared before `planes_`, which use them.
  std::vector<std::unique_ptr<rdma::reader_rail>> rails_;
  std::vector<std::unique_ptr<rdma::data_plane>> planes_;
  std::vector<std::unique_ptr<rdma::data_plane_loop>> loops_;
  std::vector<std::unique_ptr<rdma::read_lane>> lanes_;
  std::atomic<bool> stop_{false};
};

} // namespace peercache::client
