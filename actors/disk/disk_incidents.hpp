#pragma once

#include "link/protocol/reports.hpp"
#include "metrics/samples.hpp"
#include "storage/disk/disk_tier.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace peercache::actors {

/// What the disk's thread knows of its tier at one moment.
struct disk_look {
  storage::disk_tier_stats stats;
  int last_error = 0; ///< The errno of the last request that failed, or 0.
  /// The longest time that a write or read took, from asking to its end, among those that ended
  /// since the previous look.
  std::chrono::nanoseconds slowest{};
  bool verifying = false;    ///< The whole tier is being read because an operator asked for it.
  std::uint64_t unix_ms = 0; ///< The time of day, in ms since 1970.
};

/// Finds the moments when trouble of a disk tier begins and ends. Each of these moments gives a
/// line for the log. While the trouble lasts, the node has a fault that says since when.
///
/// Threads: one at a time. A value. Time is an argument.
class disk_incidents {
public:
  using time_point = storage::disk_clock::time_point;

  enum class kind : std::uint8_t { failing, full, hung, slow, rotten, off, other_store };
  static constexpr std::size_t kinds = 7;

  struct line {
    bool well = false; ///< The trouble ended; otherwise it began.
    std::string text;
  };

  explicit disk_incidents(std::string path) : path_(std::move(path)) {}

  /// Call from the disk's thread: compares the tier's state with the previous look. Returns lines
  /// for the log.
  std::vector<line> look(time_point now, const disk_look& seen);
  /// Finds whether the disk's thread, which began its last turn at `turn_at`, hangs: a call to the
  /// file system can hold that thread for ever. Call from another thread, a few times within
  /// `hangs_after`. Returns lines for the log.
  std::vector<line> look_at_thread(time_point now, time_point turn_at, std::uint64_t unix_ms);
  /// Call when the tier is off although it is configured, with the reason.
  void is_off(const std::string& why, std::uint64_t unix_ms);
  /// Call when the folder has files that other stores than the one in use have written; `what`
  /// describes these files.
  void has_other_files(const std::string& what, std::uint64_t unix_ms);

  /// A fault for each trouble that has begun and not ended.
  std::vector<link::node_fault> open() const;
  /// Adds metric::disk_incident, 1 or 0 for each kind.
  void add_numbers(metrics::samples& to) const;

  /// When writes wait and none of them has ended for this long, or the disk's thread has not come
  /// back from a call, the device hangs.
  static constexpr std::chrono::seconds hangs_after{10};
  /// The device counts as slow from a write or a read that takes this long until none has taken
  /// this long for `slow_for`.
  static constexpr std::chrono::seconds slow_after{5};
  static constexpr std::chrono::seconds slow_for{60};
  /// Shortest time between two log lines about wrong checksums.
  static constexpr std::chrono::seconds rot_pause{10};
  /// `look_at_thread` finds a hanging thread only when its previous call was no longer ago than
  /// this: after a longer pause the whole process may have been stopped.
  static constexpr std::chrono::seconds watch_pause{3};

private:
  struct incident {
    bool on = false;
    std::string text;
    std::uint64_t since_ms = 0;
  };

  void look_at_failures(const disk_look& seen);
  void look_at_room(const disk_look& seen);
  void look_at_checksums(time_point now, const disk_look& seen);
  void look_at_pace(time_point now, const disk_look& seen);
  void look_at_slowness(time_point now, const disk_look& seen);
  incident& of(kind which) { return all_[static_cast<std::size_t>(which)]; }
  bool is_on(kind which) const { return all_[static_cast<std::size_t>(which)].on; }
  void begins(kind which, std::string text, std::uint64_t unix_ms);
  void ends(kind which, std::string text);

  std::string path_;
  std::vector<line> lines_; ///< Log lines that the current call will return.
  std::array<incident, kinds> all_;
  std::uint64_t writes_when_full_ = 0;
  std::uint64_t no_space_told_ = 0;
  std::uint64_t rotten_told_ = 0;
  time_point rot_next_{};
  bool verifying_ = false;
  std::uint64_t rotten_before_verify_ = 0;
  bool queue_hangs_ = false;  ///< Writes wait, and none ends.
  bool thread_hangs_ = false; ///< The disk's thread does not come back.
  std::uint64_t ended_ = 0;   ///< Writes that succeeded or failed.
  time_point ended_at_{};
  time_point slow_at_{};
  time_point watched_at_{};
};

/// The word of a kind, as the metric's label has it: "failing", "full", "hung", "slow", "rotten",
/// "off", "other_store".
const char* to_string(disk_incidents::kind which) noexcept;

} // namespace peercache::actors
