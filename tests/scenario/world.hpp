#pragma once

#include "tests/scenario/script.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace peercache::scenario {

/// Time and the network of one run: events in order of time, drawn from one seed. All events and
/// random numbers of a run come from this class, so the same seed gives the same run.
class world {
public:
  using task = std::function<void()>;

  explicit world(std::uint64_t seed) : state_(seed * 2 + 1) {}

  time_point now() const noexcept { return now_; }
  std::uint64_t events() const noexcept { return events_; }
  /// Returns a hash over all events so far and over the numbers given to `note`: equal for equal
  /// runs.
  std::uint64_t trace() const noexcept { return trace_; }
  void note(std::uint64_t what) noexcept { trace_ = (trace_ ^ what) * 0x100000001b3ull; }
  std::uint64_t below(std::uint64_t limit) noexcept;

  void at(time_point when, task what);
  /// Runs the next event if it is due by `until`, else moves the time to `until`. Returns false
  /// when no event was due.
  bool step(time_point until);

  // Methods for the network between hosts, which are named by index.
  void resize(std::size_t hosts);
  /// Returns how long a message sent now takes; nothing when the message is lost.
  std::optional<duration> way(std::size_t from, std::size_t to);
  /// Whether messages get through from one host to the other.
  bool open(std::size_t from, std::size_t to) const { return !cuts_[from * hosts_ + to]; }
  void cut(std::size_t from, std::size_t to) { cuts_[from * hosts_ + to] = from != to; }
  void mend();
  bool repeats() { return below(100) < repeat_percent; }

  std::uint64_t loss_percent = 0;
  std::uint64_t repeat_percent = 0;
  bool overtaking = true;         ///< Whether a message may overtake one that was sent before it.
  std::vector<duration> slowness; ///< Time added to every message that a host sends, by host.

private:
  struct event {
    time_point when;
    std::uint64_t number;
    task what;
  };
  static bool later(const event& a, const event& b) noexcept {
    return a.when != b.when ? a.when > b.when : a.number > b.number;
  }

  std::uint64_t state_;
  time_point now_{std::chrono::hours(1)};
  std::uint64_t events_ = 0;
  std::uint64_t numbers_ = 0;
  std::uint64_t trace_ = 0xcbf29ce484222325ull;
  std::vector<event> queue_;
  std::size_t hosts_ = 0;
  std::vector<bool> cuts_;
};

} // namespace peercache::scenario
