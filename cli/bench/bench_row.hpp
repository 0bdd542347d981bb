#pragma once

#include "bench/sample_statistics.hpp"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace peercache::cli {

/// The kind of comparison that a row's ratio makes, and when it counts as met.
enum class ratio_kind : std::uint8_t {
  throughput, ///< The operation's rate over the limit's; met when at least the target.
  latency,    ///< The operation's p50 over the limit's; met when at most the target.
  /// The operation's rate itself, met when at least the target; there is no limit of the machine.
  rate,
};

/// CPU time, user and kernel, for each GiB moved, of the operation and of the limit.
struct cpu_cost {
  double seconds_per_gib = 0;
  double limit_seconds_per_gib = 0;
};

/// What one call costs the processes that take part, both sides together.
struct call_cost {
  double cpu_us = 0;
  double switches = 0; ///< Context switches of their threads.
};

/// A line of the output of `peercache bench`.
struct bench_row {
  std::string name; ///< The measurement: set, get_same_host, get_other_host, exists, …
  std::uint64_t page_bytes = 0;
  std::uint64_t batch = 0;
  bool verify = false; ///< Whether checksums are computed (set) or compared (get).
  ratio_kind kind = ratio_kind::throughput;
  std::optional<double> target; ///< The ratio or rate that the project asks for; empty: none.
  bench::interleaved_rounds rounds;
  /// Look-ups in another host's directory during all rounds; empty in rows that do not count them.
  std::optional<std::uint64_t> directory_messages;
  /// Round trips that validate a batch, where READs validate.
  std::optional<double> fences_per_batch;
  /// Nanoseconds in which decode plans one piece of a prompt, where prompts are handed over.
  std::optional<double> plan_ns_per_piece;
  std::string store;                   ///< The disk tier's store, where a disk is measured.
  std::optional<cpu_cost> cpu;         ///< CPU time of operation and limit, where compared.
  std::optional<call_cost> call;       ///< Where it was counted.
  std::optional<call_cost> limit_call; ///< What an exchange of the limit costs.
  /// Keys that the asked node answers in one second of its processor time: what one core of it
  /// serves, where one caller cannot ask that fast.
  std::optional<double> keys_per_node_second;
  /// The median time in which a redis-server answers the same; empty: not installed, or no look-up.
  std::optional<double> redis_p50_us;
  std::optional<double> gil_held;     ///< Share of a call during which Python's lock is held.
  std::optional<double> gil_held_max; ///< The project asks for a smaller `gil_held` than this.
  /// Ranks that made the calls, in rows where there may be several.
  std::optional<std::size_t> callers;
  std::optional<std::size_t> limit_callers; ///< Callers whose work is the limit of the row.

  double ratio() const;
  double pages_per_second() const; ///< Pages a second; 0 where keys are counted.
  bool met() const { return rate_is_met() && gil_is_met(); }
  bool rate_is_met() const; ///< Whether the ratio reaches `target`; true without a target.
  bool gil_is_met() const { return !gil_held || !gil_held_max || *gil_held < *gil_held_max; }
  nlohmann::json to_json() const;
};

nlohmann::json to_json(const std::vector<bench_row>& rows);
std::string to_text(const std::vector<bench_row>& rows, bool colour);

} // namespace peercache::cli
