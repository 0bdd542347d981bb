#pragma once

#include "handoff/read_order.hpp"
#include "handoff/room_state.hpp"
#include "metrics/latency_histogram.hpp"
#include "metrics/samples.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

namespace peercache::client {

/// Counts of one worker's rooms, for its node and for `stats`. Threads: one at a time. Bounds: the
/// last `failures_kept` different reasons of failures.
class hand_over_counts {
public:
  static constexpr std::size_t failures_kept = 8;

  void opened() noexcept { ++opened_; }
  void succeeded(std::uint64_t bytes) noexcept;
  /// @param now seconds since 1970
  void failed(const handoff::room_failure& why, std::uint64_t now);
  void took(std::chrono::microseconds from_offer_to_success) noexcept;
  void read(handoff::read_end end) noexcept { ++reads_[static_cast<std::size_t>(end)]; }

  std::uint64_t rooms_opened() const noexcept { return opened_; }
  std::uint64_t rooms_succeeded() const noexcept { return succeeded_; }
  std::uint64_t rooms_failed() const noexcept;
  std::uint64_t rooms_failed(handoff::failure_kind kind) const noexcept {
    return failed_[static_cast<std::size_t>(kind)];
  }
  std::uint64_t bytes() const noexcept { return bytes_; }
  /// Reads of any end.
  std::uint64_t reads() const noexcept { return reads_[0] + reads_[1] + reads_[2]; }
  std::uint64_t reads(handoff::read_end end) const noexcept {
    return reads_[static_cast<std::size_t>(end)];
  }

  /// @param side "prefill" or "decode"
  /// @param worker names this worker among those of its host
  /// @param rooms the worker's open rooms
  metrics::samples samples(std::string_view side, std::string_view worker,
                           const handoff::rooms_by_state& rooms, std::size_t peers) const;

private:
  struct failure {
    std::string text;
    std::uint64_t seconds = 0;
  };

  std::uint64_t opened_ = 0, succeeded_ = 0, bytes_ = 0;
  std::array<std::uint64_t, 3> reads_{}; ///< Counts of reads, by `read_end`.
  std::array<std::uint64_t, handoff::failure_kind_count> failed_{};
  std::deque<failure> last_failures_; ///< The latest different reasons, the newest last.
  metrics::latency_histogram seconds_;
};

/// Seconds since 1970 by the system's clock, as `hand_over_counts::failed` takes them.
std::uint64_t unix_seconds() noexcept;

} // namespace peercache::client
