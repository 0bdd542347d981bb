#pragma once

#include "client/cache_client.hpp"
#include "common/result.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace peercache::stress {

/// The plan of one stress run. `apply_guard_profile` changes the parts that make one guard's
/// absence show.
struct stress_plan {
  std::uint64_t ops = 1'000'000; ///< The run ends after this many pages were put, got or removed.
  std::uint64_t seed = 1;
  std::uint32_t nodes = 3;
  /// Numbers of threads that write and that read, each with a client of its own; worker i uses node
  /// i mod `nodes`.
  std::uint32_t writers = 3;
  std::uint32_t readers = 3;
  std::uint32_t keys = 100'000; ///< Number of keys of the working set.
  double pool_share = 0.05;     ///< Size of all pools together, as a share of the working set.
  /// Size of all pages; 0: each key has its own size from 4 KiB to 64 KiB.
  std::uint32_t page_bytes = 0;
  std::uint32_t pages_per_call = 0;   ///< Pages in a call; 0: drawn anew for each call.
  std::uint32_t rewrites_percent = 5; ///< Percentage of puts whose key was put lately.
  /// After this many calls a writer waits until its pages are published; 0: never. Pages that the
  /// directory has not acknowledged cannot be evicted, and would fill the small pools.
  std::uint32_t puts_per_flush = 16;
  /// Time between two kills, on average; 0: no node is killed.
  std::chrono::milliseconds kill_every{3000};
  std::chrono::milliseconds seconds_max{600'000};
  /// Bounds between which each call's time to its deadline is drawn; 0: the client's default.
  std::chrono::milliseconds deadline_least{0};
  std::chrono::milliseconds deadline_most{0};
  std::chrono::microseconds pause_between_calls{0};
  verify_mode verify = verify_mode::always;
  /// Whether readers rest from before a node is killed until the restarted node has pages, so that
  /// they go on with old locations.
  bool readers_rest_at_kills = false;
  bool stop_at_wrong_bytes = false;
  /// The guard for which `apply_guard_profile` has changed this plan; empty: none.
  std::string guard;
  std::vector<std::string> guards_off;
  /// Environment variables for the nodes and for this process.
  std::vector<std::pair<std::string, std::string>> faults;
  std::string node_program;
};

/// Returns the size of this key's page: always the same, so that a reader knows it.
std::uint32_t page_bytes_of(const stress_plan& plan, std::uint32_t key);
std::uint64_t working_set_bytes(const stress_plan& plan);
std::uint64_t pool_bytes_per_node(const stress_plan& plan);

/// Parses the command line: --ops N --seed N [--without GUARD | --control GUARD] [--seconds N]
/// --node-program PATH.
result<stress_plan> parse_plan(int argc, char** argv);

/// Changes the plan so that a guard's absence shows. Several guards catch most of the same faults.
/// So the profile switches off the guards that would hide the absence of `guard`, and makes the
/// kind of fault that `guard` prevents frequent. `off` says whether `guard` is off, too; the plans
/// with and without it differ in nothing else.
result<void> apply_guard_profile(stress_plan& plan, const std::string& guard, bool off);

} // namespace peercache::stress
