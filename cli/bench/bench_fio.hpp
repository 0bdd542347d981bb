#pragma once

#include "bench/sample_statistics.hpp"
#include "common/result.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::cli {

/// One run of `fio --ioengine=io_uring --direct=1` on one file: the device's speed for a program
/// that does nothing else.
struct fio_run {
  enum class kind : std::uint8_t {
    write, ///< Writes one block behind the other into reserved room, and fdatasync at the end.
    read   ///< Reads each block of a file once, in random order.
  };
  kind what = kind::write;
  std::string file;
  std::uint64_t block_bytes = 0;
  std::uint64_t total_bytes = 0;
  std::uint32_t depth = 0;
  bool registered = true;  ///< Memory and file are registered with the ring, as the tier's are.
  bool huge_pages = false; ///< Memory in transparent huge pages, else shared and in 4 KiB.
};

/// A way of moving pages to or from the disk, in one round.
struct disk_sample {
  bench::round_sample sample;
  double cpu_seconds = 0; ///< CPU time of fio's process, user and kernel.
};

/// Runs it as a child of ours, and waits for its figures: bytes, seconds, and the typical latency
/// as the only call. `cpu_seconds` is all that the process and the kernel on its behalf spent, from
/// its start to its end. Threads: blocks the caller, at most ten minutes. Errors: `not_found`
/// without fio; otherwise what it said.
/// @pre no other child of this process ends meanwhile
result<disk_sample> run_fio(const fio_run& run);

/// fio's options for a run.
std::vector<std::string> fio_options(const fio_run& run, const std::string& output_file);

/// The figures of its report (`--output-format=json`). Errors: `incompatible` when they are not
/// there, or an error is; then with what it says.
result<bench::round_sample> read_fio_report(std::string_view report, fio_run::kind what);

} // namespace peercache::cli
