#pragma once

#include "client/notes/call_watch.hpp"
#include "client/values/pages.hpp"
#include "common/page_key.hpp"
#include "common/page_status.hpp"
#include "link/protocol/calls.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace peercache::client {

/// What a client's calls have asked for, missed and stored over the last minutes, by key space. The
/// client sends the log to its node, and `peercache why` finds the causes of misses in it. The
/// integration of an engine (its "door") makes key spaces, describes them and notes its calls.
///
/// The log names a space by the space's key of the empty string.
///
/// Threads: any. The mutex is held while the numbers and failed pages of a call are added, which
/// are made ready before, and while one space is reported. Bounds: `spaces_max`, of each the newest
/// `misses_max` pages that were missed and `refused_max` that were not stored; pages of further
/// spaces are not noted.
class call_log {
public:
  using time_point = std::chrono::steady_clock::time_point;

  static constexpr std::size_t spaces_max = 128;
  static constexpr std::size_t misses_max = 96;
  static constexpr std::size_t refused_max = 32; ///< Refused pages have places of their own,
                                                 ///< because misses come more often.
  static constexpr std::size_t caller_key_bytes_max = 256;
  static constexpr std::size_t description_bytes_max = 8192;
  static constexpr std::size_t reasons_max = 8;

  struct description {
    std::string door;
    std::vector<std::string> fields;
    std::map<std::string, std::string> facts;
    bool operator==(const description&) const = default;
  };

  /// The pages of one call whose keys are each in all of `spaces`: the first key in each space,
  /// then the second key in each space, ... Pages that are `pending` (a chain's that were not asked
  /// about) are not noted.
  struct call {
    link::call_kind kind;
    std::span<const page_key> spaces;
    std::span<const page_key> digests; ///< Keys of the pages; may be fewer than `results`.
    std::span<const page_result> results;
    std::function<std::string_view(std::size_t)> caller_key; ///< The text of a key, by its index.
  };

  /// Tells what a space is. A description that is too long is left out.
  void describe(const page_key& space, description what);
  void note(const call& pages, time_point now);
  /// Notes pages that an engine's integration called missing without asking the cache, and the
  /// `reason`.
  void note_unasked(const page_key& space, const std::string& reason, std::uint64_t pages,
                    time_point now);

  /// What is noted of all calls, whoever made their keys.
  call_watch& watch() noexcept { return watch_; }

  /// Returns the report of the window's calls; nothing when neither this log nor its watch has
  /// changed since the last report.
  std::optional<link::call_report> take_report(time_point now);

private:
  static constexpr std::size_t buckets = 10;
  static constexpr std::chrono::milliseconds bucket_time{link::calls_window_ms / buckets};
  using counts = std::array<std::uint64_t, link::call_kinds * page_status_count>;

  /// Counts of the pages of one slice of the window, which is `calls_window_ms` long.
  struct bucket {
    std::int64_t number = -1;
    counts pages{};
    std::map<std::string, std::uint64_t> unasked;
  };
  struct failed {
    link::call_kind kind;
    page_status status;
    time_point at;
    page_key digest;
    std::string caller_key;
  };
  /// What one call adds to one space.
  struct share {
    std::array<std::uint64_t, page_status_count> pages{};
    std::vector<failed> lost; ///< The first pages that failed.
  };
  struct space {
    description what;
    std::array<bucket, buckets> by_time;
    std::deque<failed> missed;  ///< The newest pages that exists or get did not find.
    std::deque<failed> refused; ///< The newest pages that set did not store.
  };

  static std::int64_t number_of(time_point now) noexcept;
  space* find(const page_key& id); ///< Finds or makes a space; null: there are too many. The caller
                                   ///< holds lock_.
  static bucket& bucket_at(space& in, time_point now);
  static share share_of(const call& pages, std::size_t column, time_point now);
  static failed failed_at(const call& pages, std::size_t index, time_point now);
  static void add_share(space& to, link::call_kind kind, share&& of, time_point now);
  static void add_rows(link::space_calls& to, const std::deque<failed>& pages, time_point now);
  static link::space_calls report_of(const page_key& id, const space& one, time_point now);

  call_watch watch_;
  std::mutex lock_; // Threads of the engine note calls, and the session's actor takes reports.
  std::unordered_map<page_key, space> spaces_; ///< Guarded by lock_.
  bool changed_ = false;                       ///< Guarded by lock_.
};

} // namespace peercache::client
