#pragma once

#include <algorithm>
#include <cstdint>

namespace peercache::actors {

/// Remembers the most bytes that were wanted within one beat lately; forgets by half in about
/// twenty beats. Threads: none; the owner serializes.
class recent_demand {
public:
  void add(std::uint64_t bytes) noexcept { in_beat_ += bytes; }
  /// Ends the current beat: folds its bytes into the peak, which decays by a 32nd.
  void beat() noexcept {
    peak_ = std::max(in_beat_, peak_ - peak_ / 32);
    in_beat_ = 0;
  }
  std::uint64_t bytes() const noexcept { return std::max(in_beat_, peak_); }

private:
  std::uint64_t in_beat_ = 0;
  std::uint64_t peak_ = 0;
};

} // namespace peercache::actors
