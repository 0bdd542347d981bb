#pragma once

#include "bench/page_content.hpp"
#include "client/cache_client.hpp"
#include "common/page_status.hpp"
#include "stall_watch.hpp"
#include "tests/support/history.hpp"
#include "thread_times.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::stress {

/// What all workers of a run share: which versions of a key were put so far, which keys were put
/// last, and the totals. Threads: any; only the examples of wrong bytes need the lock.
class stress_ledger {
public:
  explicit stress_ledger(std::uint32_t keys) : versions_(keys), recent_(recent_keys) {}

  /// Returns the version of this key to put next; more than `bench::page_version_max` when there is
  /// none left.
  std::uint32_t next_version(std::uint32_t key) { return versions_[key].fetch_add(1) + 1; }
  /// Returns the newest version of this key that any worker may have put.
  std::uint32_t newest_version(std::uint32_t key) const { return versions_[key].load(); }

  void remember_put(std::uint32_t key) {
    recent_[next_recent_.fetch_add(1, std::memory_order_relaxed) % recent_.size()] = key;
  }
  /// Returns a key that was put lately, chosen by the random number `drawn`: its page is likely in
  /// the cluster, or was evicted a moment ago.
  std::uint32_t recent(std::uint64_t drawn) const { return recent_[drawn % recent_.size()].load(); }

  /// Notes that a call of this thread, which had to return by `until`, has just returned. A call is
  /// not counted as late for time in which the whole process stood still. `what` and `before`, the
  /// thread's times when the call began, are for the report. `by` and the result, the call's
  /// number, are for the history.
  tests::history::call_number note_call(std::string_view what, std::string_view by,
                                        std::chrono::steady_clock::time_point begin,
                                        std::chrono::steady_clock::time_point until,
                                        const thread_times& before);

  /// Notes a hit whose bytes no producer ever put under that key.
  void report_wrong(std::uint32_t key, const bench::page_check& check, std::uint64_t bytes,
                    page_origin origin);
  std::vector<std::string> examples() const;

  std::atomic<std::uint64_t> ops{0};
  std::atomic<std::uint64_t> gets{0};
  std::atomic<std::uint64_t> hits{0};
  std::array<std::atomic<std::uint64_t>, page_origin_count> hits_by_origin{};
  std::atomic<std::uint64_t> removes{0};
  std::atomic<std::uint64_t> wrong_bytes{0};
  std::atomic<std::uint64_t> wrong_pages{0};
  std::atomic<std::uint64_t> reconnects{0};
  std::array<std::atomic<std::uint64_t>, page_status_count> got{};
  std::array<std::atomic<std::uint64_t>, page_status_count> put{};
  std::atomic<std::uint64_t> calls{0};
  /// Calls that returned later after their deadlines than allowed.
  std::atomic<std::uint64_t> deadline_overruns{0};
  /// The latest return of any call, in microseconds after its deadline.
  std::atomic<std::int64_t> latest_return_us{INT64_MIN};
  /// How often a client told an older view than before.
  std::atomic<std::uint64_t> view_regressions{0};
  std::atomic<bool> stop{false};
  /// Whether readers make no calls; their clients keep the locations that they know.
  std::atomic<bool> readers_rest{false};
  std::atomic<bool> writers_rest{false};
  /// Number of workers that are in a call; a resting worker counts for a moment, too.
  std::atomic<std::uint32_t> rounds_running{0};

  stall_watch stalls;
  /// History in which calls and their results are recorded; null: none. Set before workers run.
  tests::history* record = nullptr;

private:
  void add_example(std::string text);

  static constexpr std::chrono::milliseconds overrun_allowed{50};
  static constexpr std::size_t recent_keys = 4096;
  static constexpr std::size_t examples_max = 10;

  std::vector<std::atomic<std::uint32_t>> versions_;
  std::vector<std::atomic<std::uint32_t>> recent_;
  std::atomic<std::uint64_t> next_recent_{0};
  /// Guards `examples_` only, which few calls touch: wrong bytes are rare.
  mutable std::mutex lock_;
  std::vector<std::string> examples_;
};

} // namespace peercache::stress
