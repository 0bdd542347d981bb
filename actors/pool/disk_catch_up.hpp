#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

namespace peercache::actors {

/// Decides where in the pool, and when, to look for pages that are not on disk. The search goes
/// round the pool, with a pause after each round, and with longer and longer pauses while the disk
/// takes none of the pages that it is given. Threads: none; the owner serializes. Time comes as an
/// argument.
class disk_catch_up {
public:
  using time_point = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::milliseconds round_pause{1000};
  static constexpr std::chrono::milliseconds failure_pause_max{30'000};

  /// Whether to take a step of the search now. @param idle nothing is on its way to the disk: each
  /// page that the disk was given is decided @param hurried a caller waits for the end: no pause
  /// between two rounds
  bool due(time_point now, bool idle, bool hurried) {
    if (idle && given_ != 0) { // The disk has taken none of the given pages.
      given_ = 0;
      failing_until_ = now + failure_pause_;
      failure_pause_ = std::min(2 * failure_pause_, failure_pause_max);
    }
    return !failing(now) && (hurried || now >= round_at_);
  }

  /// The next granule to look at; 0 at the beginning of a round.
  std::uint32_t at() const noexcept { return at_; }

  /// Call after a step: the search has come to granule `next` (0: the end of the pool) and gave
  /// `given` pages to the disk.
  void looked(time_point now, std::uint32_t next, std::uint64_t given) {
    given_ += given;
    in_round_ += given;
    at_ = next;
    if (next != 0)
      return;
    round_at_ = now + round_pause;
    last_round_ = std::exchange(in_round_, 0);
    ++rounds_;
  }

  /// Call when the disk has taken pages: it is not failing.
  void stored() noexcept {
    given_ = 0;
    failing_until_ = {};
    failure_pause_ = round_pause;
  }

  bool failing(time_point now) const noexcept { return now < failing_until_; }
  std::uint64_t rounds() const noexcept { return rounds_; }
  /// Number of pages that the last complete search for pages not on disk gave to the disk.
  std::uint64_t last_round() const noexcept { return last_round_; }

private:
  std::uint32_t at_ = 0;
  std::uint64_t given_ = 0; ///< Pages given since the disk last took a page.
  std::uint64_t in_round_ = 0;
  std::uint64_t last_round_ = 0;
  std::uint64_t rounds_ = 0;
  std::chrono::milliseconds failure_pause_ = round_pause;
  time_point round_at_{};
  time_point failing_until_{};
};

} // namespace peercache::actors
