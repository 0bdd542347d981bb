#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <unordered_map>

namespace peercache::rdma {

/// The line of the sessions that lack memory windows. The first one's windows are bound, for a turn
/// of `bindings_per_turn` bindings or `turn_time`, whichever ends first; then it goes to the end of
/// the line. So a session with many windows, or one whose bindings complete slowly, keeps others
/// waiting for a turn at most. Threads: none; the rail serializes. Cost: constant for each call.
class binding_turns {
public:
  using clock = std::chrono::steady_clock;
  /// With chunks of 1 GiB a turn is enough for a pool of 127 GiB.
  static constexpr std::size_t bindings_per_turn = 128;
  static constexpr std::chrono::milliseconds turn_time{50};

  /// Puts a session at the end of the line, unless it is in the line.
  void enter(std::uint64_t id) {
    if (!places_.contains(id))
      places_.emplace(id, line_.insert(line_.end(), id));
  }
  /// Takes a session out of the line. Returns whether it was in the line.
  bool leave(std::uint64_t id) {
    const auto found = places_.find(id);
    if (found == places_.end())
      return false;
    if (found->second == line_.begin())
      begin_anew();
    line_.erase(found->second);
    places_.erase(found);
    return true;
  }
  void clear() {
    line_.clear();
    places_.clear();
    begin_anew();
  }

  std::optional<std::uint64_t> first() const noexcept {
    return line_.empty() ? std::nullopt : std::optional(line_.front());
  }
  /// How many bindings the first session may still post in its turn.
  std::size_t left() const noexcept { return bindings_per_turn - posted_; }
  /// Notes that the first session has had its chance to post, and has posted this many bindings.
  /// @pre posted <= left(); the line is not empty
  void used(std::size_t posted, clock::time_point now) noexcept {
    posted_ += posted;
    if (!began_at_)
      began_at_ = now;
  }
  /// Sends the first session to the end of the line if its turn is over. Returns whether it was.
  bool pass(clock::time_point now) {
    const bool over = posted_ == bindings_per_turn || (began_at_ && now - *began_at_ >= turn_time);
    if (line_.empty() || !over)
      return false;
    line_.splice(line_.end(), line_, line_.begin());
    begin_anew();
    return true;
  }

private:
  void begin_anew() noexcept {
    posted_ = 0;
    began_at_.reset();
  }

  std::list<std::uint64_t> line_;
  std::unordered_map<std::uint64_t, std::list<std::uint64_t>::iterator> places_;
  std::size_t posted_ = 0;                    ///< Bindings of the first session in its turn.
  std::optional<clock::time_point> began_at_; ///< When the first session's turn began.
};

} // namespace peercache::rdma
