#pragma once

#include <algorithm>
#include <cstdint>

namespace peercache::discovery {

/// Guards a number that only grows, by one or a few at each change of the cluster, against a packet
/// that would make it so large that no further change could be numbered. Pure. Threads: none.
class jump_guard {
public:
  static constexpr std::uint64_t jump_max = std::uint64_t{1} << 20;

  /// Whether `number` is at most `jump_max` above `known` and all numbers seen before. A larger
  /// number is refused, but raises the limit for the next one by `jump_max`: so a node that was
  /// told of a large jump and a node that was not accept the same numbers again after some packets.
  /// To reach the end of the number range takes trillions of packets.
  bool admits(std::uint64_t number, std::uint64_t known) noexcept {
    seen_ = std::max(seen_, known);
    const auto most = seen_ + jump_max;
    seen_ = std::max(seen_, std::min(number, most));
    return number <= most;
  }

private:
  std::uint64_t seen_ = 0;
};

} // namespace peercache::discovery
