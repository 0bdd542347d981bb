#pragma once

#include "bench/sample_statistics.hpp"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace peercache::cli {

/// The kind of comparison that a ratio makes.
enum class ratio_kind : std::uint8_t {
  throughput, ///< Operation over limit: at least the target.
  latency,    ///< p50 over the limit's p50: at most the target.
  rate,       ///< The rate itself, which is to reach the target; no limit of the machine.
};

/// Processor time, user and kernel, for each GiB moved.
struct cpu_cost {
  double seconds_per_gib = 0;
  double limit_seconds_per_gib = 0;
};

/// One line of `peercache bench`.
struct bench_row {
  std::string name; ///< set, get_same_host, get_other_host, exists, …
  std::uint64_t page_bytes = 0;
  std::uint64_t batch = 0;
  bool verify = false; ///< The checksum is computed (set) or compared (get).
  ratio_kind kind = ratio_kind::throughput;
  std::optional<double> target; ///< The ratio that the project asks for.
  bench::interleaved_rounds rounds;
  /// Sent during all rounds, where that is the point.
  std::optional<std::uint64_t> directory_messages;
  std::optional<double> fences_per_batch; ///< Round trips of validation, where it is done by READs.
  std::string store;                      ///< The disk tier's store, where one is measured.
  std::optional<cpu_cost> cpu;            ///< CPU time, where that is compared.
  std::optional<double> gil_held;         ///< Share of a call in which Python's lock is held.
  std::optional<double> gil_held_max;     ///< The project asks for less than this.
  std::optional<std::size_t> callers; ///< Ranks that made the calls, where there may be several.
  std::optional<std::size_t> limit_callers; ///< Callers on the limit's side.

  double ratio() const;
  double pages_per_second() const; ///< 0 where keys are counted.
  bool met() const { return rate_is_met() && gil_is_met(); }
  bool rate_is_met() const; ///< `target`, or there is none.
  bool gil_is_met() const { return !gil_held || !gil_held_max || *gil_held < *gil_held_max; }
  nlohmann::json to_json() const;
};

nlohmann::json to_json(const std::vector<bench_row>& rows);
std::string to_text(const std::vector<bench_row>& rows, bool colour);

} // namespace peercache::cli
