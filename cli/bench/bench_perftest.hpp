#pragma once

#include "bench/sample_statistics.hpp"
#include "common/result.hpp"
#include "rdma/verbs/device.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::cli {

/// A run of `ib_read_bw` or `ib_read_lat` (package perftest) between two ports of this host, which
/// shows the devices' speed for a program that does nothing else, on one queue pair.
struct perftest_run {
  rdma::verbs::port_report reader;
  rdma::verbs::port_report server;
  std::uint32_t page_bytes = 0;
  std::uint32_t iterations = 0; ///< Reads of the run; perftest takes no fewer than 5.
  /// Work requests that are posted and not completed at a time (bandwidth only).
  std::uint32_t depth = 0;
};

/// Runs perftest, both ends as child processes, and returns its figures: bytes and seconds from
/// `ib_read_bw`, or the typical time from `ib_read_lat` as the only call. Threads: blocks the
/// caller, at most two minutes. Errors: `not_found` without perftest; otherwise what the program
/// said.
result<bench::round_sample> read_bandwidth(const perftest_run& run);
result<bench::round_sample> read_latency(const perftest_run& run);

/// Figures from perftest's output, which stand in the row of numbers that begins with the page
/// size. Columns are counted, as in all versions since 3.0. A row of bandwidths has: bytes,
/// iterations, peak, average MiB/s, ... A row of latencies has: bytes, iterations, least, most,
/// typical us, ... Errors: `incompatible` when the output has no such row.
result<double> average_mib_per_second(std::string_view output, std::uint32_t page_bytes);
result<double> typical_us(std::string_view output, std::uint32_t page_bytes);

/// The options of perftest at one of the two ends, without `-p` and the host.
std::vector<std::string> perftest_options(const perftest_run& run,
                                          const rdma::verbs::port_report& end);

} // namespace peercache::cli
