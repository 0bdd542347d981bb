#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace peercache {

/// A budget that fills up with time: `per_second` units a second, and never more than `burst` at
/// once. Units spent beyond the budget are a debt that time pays back. Pure: time is an argument.
/// Threads: none; the owner serializes. Units: the owner's.
class rate_limit {
public:
  using time_point = std::chrono::steady_clock::time_point;

  /// Makes a full budget. @param per_second units that come each second; 0: no limit. @param burst
  /// the most units that can be left, which is also what is left at first
  rate_limit(std::uint64_t per_second, std::uint64_t burst) noexcept
      : per_second_(static_cast<double>(per_second)), burst_(static_cast<double>(burst)),
        left_(burst_) {}
  rate_limit() noexcept : rate_limit(0, 0) {}

  /// How many units may be spent at `now`; UINT64_MAX without a limit.
  std::uint64_t left(time_point now) noexcept {
    if (per_second_ == 0)
      return UINT64_MAX;
    if (filled_at_ != time_point{} && now > filled_at_)
      left_ += per_second_ * std::chrono::duration<double>(now - filled_at_).count();
    left_ = std::min(left_, burst_);
    filled_at_ = std::max(now, filled_at_);
    return left_ < 1 ? 0 : static_cast<std::uint64_t>(left_);
  }
  void spend(std::uint64_t amount) noexcept { left_ -= static_cast<double>(amount); }

private:
  double per_second_;
  double burst_;
  double left_;
  time_point filled_at_{};
};

} // namespace peercache
