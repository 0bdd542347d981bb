#pragma once

#include "bench/sample_statistics.hpp"
#include "common/result.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::cli {

/// A run of `fio --ioengine=io_uring --direct=1` on one file, which shows the device's speed for a
/// program that does nothing else.
struct fio_run {
  enum class kind : std::uint8_t {
    write, ///< Writes one block behind the other into reserved room, then calls fsync.
    read   ///< Reads each block of the file once, in random order.
  };
  kind what = kind::write;
  std::string file;
  std::uint64_t block_bytes = 0;
  std::uint64_t total_bytes = 0;
  std::uint32_t depth = 0;
  /// Whether memory and file are registered with the ring, as those of the disk tier are.
  bool registered = true;
  /// Whether memory is in transparent huge pages; else it is shared and in pages of 4 KiB.
  bool huge_pages = false;
};

/// A round of moving pages to or from the disk, by fio or by the disk tier: its figures and its CPU
/// time.
struct disk_sample {
  bench::round_sample sample;
  double cpu_seconds = 0; ///< CPU time, user and kernel, of the process that moved the pages.
};

/// Runs fio as a child process, and returns its figures: bytes, seconds, and the median latency as
/// the sample's only call. `cpu_seconds` is all that fio and the kernel on its behalf spent, from
/// its start to its end. Threads: blocks the caller, at most ten minutes. Errors: `not_found`
/// without fio; otherwise fio's own message.
/// @pre no other child of this process ends during the run
result<disk_sample> run_fio(const fio_run& run);

/// The command line options of fio for this run; fio writes its report to `output_file`.
std::vector<std::string> fio_options(const fio_run& run, const std::string& output_file);

/// Reads the figures of fio's report (`--output-format=json`). Errors: `incompatible` when the
/// report has no figures or tells of an error; the message then has the report.
result<bench::round_sample> read_fio_report(std::string_view report, fio_run::kind what);

} // namespace peercache::cli
