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
  std::string path = "."; ///< The folder whose file system is measured.
  std::vector<std::string> stores = {"bucket", "file_per_key", "offset"};
  std::vector<std::string> only; ///< Names of the rows to measure; empty: all.
  std::vector<std::uint64_t> sizes = {4u << 10, 256u << 10, 1u << 20, 4u << 20};
  std::uint32_t rounds = 5;
  std::uint32_t depth = 64; ///< Requests of the tier, or of fio, on the device at a time.
  /// Bytes of memory for pages, and so of pages that wait to be written.
  std::uint64_t memory_bytes = 512u << 20;
  std::uint64_t round_bytes = 2048u << 20; ///< Bytes that tier and fio each move in one round.
  /// Pages that tier and fio each move in one round, at most.
  std::uint64_t round_pages = 32768;
  std::uint32_t rest_s = 0; ///< Seconds that the device rests before each round of tier or fio.
  /// The tier's option disk.size: large enough to evict nothing.
  std::uint64_t size_bytes = 24ull << 30;
  std::uint64_t bucket_bytes = 256u << 20; ///< The tier's option disk.bucket_size.
  std::uint32_t bucket_keys = 500;         ///< The tier's option disk.bucket_keys.
  /// Whether fio registers memory and files with the ring, as the disk tier does.
  bool fio_registers = true;
  /// Whether the memory of the disk tier and of fio is in transparent huge pages. In pages of 4 KiB
  /// the device gets pieces as the kernel happened to place them, and the rates of tier and fio
  /// vary by a factor of two.
  bool huge_pages = true;
  bool check = false; ///< Whether the command ends with 1 when a target is missed.

  std::uint64_t pages_of(std::uint64_t page_bytes) const noexcept;
  bool wants(const std::string& name) const;
};

/// The least ratio to fio that is wanted for pages of this size: small pages are compared by
/// requests, large ones by bytes.
double disk_target(std::uint64_t page_bytes) noexcept;

/// The disk tier of a node, driven by the caller's thread: writes pages of one size out of
/// `memory`, and reads them back into it. Threads: one. Ownership: `memory` is lent until the end.
/// Errors: a page that ends with another status than `ok`.
class disk_bench_tier {
public:
  struct place {
    std::string folder; ///< The tier's folder, which the tier makes and the caller removes.
    std::string store;
  };
  static result<std::unique_ptr<disk_bench_tier>> open(const disk_bench_options& options,
                                                       const place& where,
                                                       std::span<std::byte> memory,
                                                       std::uint64_t page_bytes);
  ~disk_bench_tier();

  /// Writes all pages of a round and returns when the last one is durable.
  result<disk_sample> write_all();
  /// Reads each page of the round once, in random order, `depth` at a time on the device.
  ///
  /// @pre write_all
  result<disk_sample> read_all();

private:
  disk_bench_tier(const disk_bench_options& options, std::span<std::byte> memory,
                  std::uint64_t page_bytes);
  result<void> start(const place& where);
  struct pace {
    std::size_t pages = 0;  ///< Pages that are handed to the tier and not ended, at most.
    std::size_t reaped = 0; ///< Completions that one turn takes, at most.
  };
  result<disk_sample> run(storage::disk_event::kind what, const pace& at_most);
  void hand_over(storage::disk_event::kind what, std::uint32_t page, std::uint32_t slot);
  /// Runs the tier's loop once; returns how many pages ended in it.
  result<std::size_t> turn(std::size_t reaped_at_most);
  std::byte* memory_of(std::uint32_t slot) const noexcept {
    return memory_.data() + slot * page_bytes_;
  }

  const disk_bench_options& options_;
  std::span<std::byte> memory_;
  std::uint64_t page_bytes_;
  std::vector<page_key> keys_;
  std::vector<std::uint64_t> checksums_; ///< Checksums of the pages, by slot.
  std::vector<std::uint32_t> order_;     ///< The order in which the pages are handed to the tier.
  std::vector<std::uint32_t> free_slots_;
  /// The time at which each page was handed to the tier, by slot.
  std::vector<bench::clock::time_point> handed_over_;
  bench::round_sample sample_;
  std::unique_ptr<storage::disk_io> io_;
  std::unique_ptr<storage::disk_tier> tier_;
};

/// Runs the measurements that the options ask for, and returns their rows. Errors: `not_found`
/// without fio, `out_of_space`, and errors of the disk.
result<std::vector<bench_row>> run_disk_bench(const disk_bench_options& options);

/// Adds the command `peercache bench disk`.
void add_disk_bench(command_line& line, CLI::App& bench);

} // namespace peercache::cli
