#pragma once

#include "storage/disk/disk_tier.hpp"

#include <string>
#include <vector>

namespace peercache::actors {

/// Finds, in the counters of a disk tier, the moments when trouble begins and ends, and returns one
/// line for the log at each.
///
/// Threads: one. A value. Time is an argument.
class disk_incidents {
public:
  using time_point = storage::disk_clock::time_point;

  struct line {
    bool well = false; ///< The trouble ended; otherwise it began.
    std::string text;
  };

  explicit disk_incidents(std::string path) : path_(std::move(path)) {}

  /// @param stats the counters now @param last_error errno of the last request that failed, or 0
  std::vector<line> look(time_point now, const storage::disk_tier_stats& stats, int last_error);

  /// When writes wait and none of them has ended for this long, the device hangs.
  static constexpr std::chrono::seconds hangs_after{10};
  /// Shortest time between two lines about wrong checksums.
  static constexpr std::chrono::seconds rot_pause{10};

private:
  void look_at_failures(const storage::disk_tier_stats& stats, int last_error);
  void look_at_room(const storage::disk_tier_stats& stats);
  void look_at_checksums(time_point now, const storage::disk_tier_stats& stats);
  void look_at_pace(time_point now, const storage::disk_tier_stats& stats);
  void begins(std::string text) { lines_.push_back({false, std::move(text)}); }
  void ends(std::string text) { lines_.push_back({true, std::move(text)}); }

  std::string path_;
  std::vector<line> lines_; ///< Lines of the current call of `look`.
  bool fails_ = false;
  bool full_ = false;
  std::uint64_t writes_when_full_ = 0;
  std::uint64_t no_space_told_ = 0;
  std::uint64_t rotten_told_ = 0;
  time_point rot_next_{};
  bool hangs_ = false;
  std::uint64_t ended_ = 0; ///< Writes that succeeded or failed.
  time_point ended_at_{};
};

} // namespace peercache::actors
