#pragma once

#include "client/cache_client.hpp"
#include "common/result.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace peercache::stress {

/// The plan of one run. `guard_profile` changes the parts that make one guard's absence show.
struct stress_plan {
  std::uint64_t ops = 1'000'000; ///< Pages put, got or removed until the end.
  std::uint64_t seed = 1;
  std::uint32_t nodes = 3;
  /// Threads, each a client of its own; number i belongs to node i mod `nodes`.
  std::uint32_t writers = 3;
  std::uint32_t readers = 3;
  std::uint32_t keys = 100'000; ///< The working set.
  double pool_share = 0.05;     ///< Size of all pools together, as a share of the working set.
  /// Size of all pages; 0: each key has its own size from 4 KiB to 64 KiB.
  std::uint32_t page_bytes = 0;
  std::uint32_t pages_per_call = 0;   ///< 0: drawn anew for each call.
  std::uint32_t rewrites_percent = 5; ///< Puts of a key that was put lately.
  /// A writer waits for its pages to be published after so many calls; 0: never. What is filled and
  /// not yet acknowledged cannot be evicted, and would come to fill the small pools.
  std::uint32_t puts_per_flush = 16;
  /// Between two kills, on average; 0: nobody is killed.
  std::chrono::milliseconds kill_every{3000};
  std::chrono::milliseconds seconds_max{600'000};
  /// Each call has a deadline of its own between these; 0: the client's.
  std::chrono::milliseconds deadline_least{0};
  std::chrono::milliseconds deadline_most{0};
  std::chrono::microseconds pause_between_calls{0};
  client::verify_mode verify = client::verify_mode::always;
  /// Readers remember what they know while a node is killed, and go on when its successor has
  /// pages.
  bool readers_rest_at_kills = false;
  bool stop_at_wrong_bytes = false;
  std::string guard; ///< The guard whose profile this is; empty: none.
  std::vector<std::string> guards_off;
  /// Environment of nodes and of this process.
  std::vector<std::pair<std::string, std::string>> faults;
  std::string node_program;
};

/// Size of the page of this key: always the same, so that a reader knows it.
std::uint32_t page_bytes_of(const stress_plan& plan, std::uint32_t key);
std::uint64_t working_set_bytes(const stress_plan& plan);
std::uint64_t pool_bytes_per_node(const stress_plan& plan);

/// The command line: --ops N --seed N [--without GUARD | --control GUARD] [--seconds N]
/// --node-program PATH.
result<stress_plan> parse_plan(int argc, char** argv);

/// Guards overlap: several of them catch most of the same faults. The profile of a guard switches
/// off the ones that would mask it, makes its kind of fault frequent, and lets it alone stand
/// between that fault and the reader. `off` decides about the guard itself; everything else is the
/// same in both runs.
result<void> apply_guard_profile(stress_plan& plan, const std::string& guard, bool off);

} // namespace peercache::stress
