#pragma once

#include "common/hash_seed.hpp"

#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace peercache {

/// Names one host of the cluster: the XXH3 digest of its configured name. Two live members with the
/// same `node_id` never share a view (the second one's join is refused).
struct node_id {
  std::uint64_t value = 0;
  auto operator<=>(const node_id&) const = default;
};

/// The id of the node that is called `name`.
node_id node_id_of(std::string_view name) noexcept;

/// Tells a process from other processes of the same name: 128 random bits drawn when the process
/// starts. Every record that names memory also names the incarnation of the process that has the
/// memory, so that a comparison shows when that process is gone.
struct incarnation {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  auto operator<=>(const incarnation&) const = default;

  /// Draws an incarnation from getrandom(2); never zero.
  static incarnation random();
};

/// Index of a page's first 4 KiB granule in its pool; its entry in the slot table has the same
/// index.
struct slot_id {
  std::uint32_t value = 0;
  auto operator<=>(const slot_id&) const = default;
};

/// The number of a slot's fill: even while the page can be read, odd while the slot is being filled
/// or has been given up. Only grows; never reused within one incarnation.
struct generation {
  std::uint64_t value = 0;
  auto operator<=>(const generation&) const = default;
  bool readable() const noexcept { return value != 0 && value % 2 == 0; }
};

std::string to_string(node_id id);
std::string to_string(const incarnation& value);

} // namespace peercache

template <>
struct std::hash<peercache::node_id> {
  std::size_t operator()(peercache::node_id id) const noexcept { return id.value; }
};

template <>
struct std::hash<peercache::incarnation> {
  std::size_t operator()(const peercache::incarnation& x) const noexcept {
    return peercache::hash_seed::mix(x.high, x.low);
  }
};
