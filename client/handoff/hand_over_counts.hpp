#pragma once

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
  void read(bool good) noexcept { ++(good ? reads_good_ : reads_refused_); }

  std::uint64_t rooms_opened() const noexcept { return opened_; }
  std::uint64_t rooms_succeeded() const noexcept { return succeeded_; }
  std::uint64_t rooms_failed() const noexcept;
  std::uint64_t rooms_failed(handoff::failure_kind kind) const noexcept {
    return failed_[static_cast<std::size_t>(kind)];
  }
  std::uint64_t bytes() const noexcept { return bytes_; }
  std::uint64_t reads_good() const noexcept { return reads_good_; }
  std::uint64_t reads_refused() const noexcept { return reads_refused_; }

  /// @param side "prefill" or "decode"
  /// @param worker names this worker among those of its host
  metrics::samples samples(std::string_view side, std::string_view worker, std::size_t rooms,
                           std::size_t peers) const;

private:
  struct failure {
    std::string text;
    std::uint64_t seconds = 0;
  };

  std::uint64_t opened_ = 0, succeeded_ = 0, bytes_ = 0;
  std::uint64_t reads_good_ = 0, reads_refused_ = 0;
  std::array<std::uint64_t, handoff::failure_kind_count> failed_{};
  std::deque<failure> last_failures_; ///< The latest different reasons, the newest last.
  metrics::latency_histogram seconds_;
};

/// Seconds since 1970 by the system's clock, as `hand_over_counts::failed` takes them.
std::uint64_t unix_seconds() noexcept;

} // namespace peercache::client
