#pragma once

#include "bench/raw_limits.hpp"
#include "cli/bench/bench_fio.hpp"
#include "cli/bench/bench_row.hpp"
#include "cli/command.hpp"
#include "storage/disk/disk_tier.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace peercache::cli {

struct disk_bench_options {
  std::string path = "."; ///< A folder on the file system that is measured.
  std::vector<std::string> stores = {"bucket", "file_per_key", "offset"};
  std::vector<std::string> only; ///< Names of rows; empty: all.
  std::vector<std::uint64_t> sizes = {4u << 10, 256u << 10, 1u << 20, 4u << 20};
  std::uint32_t rounds = 5;
  std::uint32_t depth = 64;                ///< Requests on the device, on both sides.
  std::uint64_t memory_bytes = 512u << 20; ///< Pages that wait to be written, at most.
  std::uint64_t round_bytes = 2048u << 20; ///< Moved by each side in one round, but
  std::uint64_t round_pages = 32768;       ///< at most so many pages.
  std::uint32_t rest_s = 0; ///< The device is left idle, before each round of either side.
  std::uint64_t size_bytes = 24ull << 30;  ///< The tier's disk.size: large enough to evict nothing.
  std::uint64_t bucket_bytes = 256u << 20; ///< The tier's disk.bucket_size.
  std::uint32_t bucket_keys = 500;         ///< The tier's disk.bucket_keys.
  bool fio_registers = true;               ///< fio registers memory and files, as we do.
  /// Memory of both sides in transparent huge pages. In pages of 4 KiB the pieces that the device
  /// has to do with are what the kernel happened to have, and both sides' rates vary by a factor of
  /// two.
  bool huge_pages = true;
  bool check = false; ///< Ends with 1 when a target is missed.

  std::uint64_t pages_of(std::uint64_t page_bytes) const noexcept;
  bool wants(const std::string& name) const;
};

/// The target of the ratio for pages of this size: small ones are compared by requests, not bytes.
double disk_target(std::uint64_t page_bytes) noexcept;

/// The disk tier of a node, driven by the caller's thread: pages of one size out of `memory`, and
/// back into it. Threads: one. Ownership: `memory` is lent until the end. Errors: a page that ends
/// with another status than `ok`.
class disk_bench_tier {
public:
  struct place {
    std::string folder; ///< Made; what is in it is the caller's to remove.
    std::string store;
  };
  static result<std::unique_ptr<disk_bench_tier>> open(const disk_bench_options& options,
                                                       const place& where,
                                                       std::span<std::byte> memory,
                                                       std::uint64_t page_bytes);
  ~disk_bench_tier();

  /// Writes all pages of a round, until the last one is durable.
  result<disk_sample> write_all();
  /// Reads each of them once, in random order, `depth` at a time on the device. @pre write_all
  result<disk_sample> read_all();

private:
  disk_bench_tier(const disk_bench_options& options, std::span<std::byte> memory,
                  std::uint64_t page_bytes);
  result<void> start(const place& where);
  struct pace {
    std::size_t pages = 0;  ///< Handed over and not ended.
    std::size_t reaped = 0; ///< Completions taken in one turn.
  };
  result<disk_sample> run(storage::disk_event::kind what, const pace& at_most);
  void hand_over(storage::disk_event::kind what, std::uint32_t page, std::uint32_t slot);
  /// One turn of the loop; returns how many pages ended.
  result<std::size_t> turn(std::size_t reaped_at_most);
  std::byte* memory_of(std::uint32_t slot) const noexcept {
    return memory_.data() + slot * page_bytes_;
  }

  const disk_bench_options& options_;
  std::span<std::byte> memory_;
  std::uint64_t page_bytes_;
  std::vector<page_key> keys_;
  std::vector<std::uint64_t> checksums_; ///< Pages' checksums, by slot.
  std::vector<std::uint32_t> order_;     ///< The order in which pages are handed over.
  std::vector<std::uint32_t> free_slots_;
  std::vector<bench::clock::time_point> handed_over_; ///< When each page was handed over, by slot.
  bench::round_sample sample_;
  std::unique_ptr<storage::disk_io> io_;
  std::unique_ptr<storage::disk_tier> tier_;
};

/// Measures what the options ask for. Errors: `not_found` without fio, `out_of_space`, and whatever
/// the disk says.
result<std::vector<bench_row>> run_disk_bench(const disk_bench_options& options);

/// `bench disk`, below `bench`.
void add_disk_bench(command_line& line, CLI::App& bench);

} // namespace peercache::cli
