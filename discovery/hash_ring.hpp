#pragma once

#include "common/ids.hpp"
#include "common/page_key.hpp"
#include "discovery/view.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace peercache::discovery {

/// Tells which nodes own a key: consistent hashing with 160 virtual nodes for each member. A
/// virtual node's position is XXH3-64 of (node_id, replica), so it depends neither on the other
/// members nor on the incarnation.
///
/// Members that are draining own nothing, unless all members are draining.
///
/// Immutable after construction; threads: any. Memory: 3.1 to 3.8 KiB for each member.
class hash_ring {
public:
  /// How large a part of all keys one member owns.
  struct share {
    node_id id;
    double first = 0;  ///< Share of all keys whose first owner is this member; 1: all keys.
    double listed = 0; ///< Share of all keys that have this member among their owners.
  };

  static constexpr std::uint32_t virtual_nodes = 160;

  hash_ring() = default;
  explicit hash_ring(std::span<const member> members);

  /// Writes the first `out.size()` distinct members clockwise of the key's position; fewer when the
  /// ring has fewer members. Returns how many it wrote.
  std::size_t owners(const page_key& key, std::span<node_id> out) const noexcept {
    return owners_at(key.prefix(), out);
  }
  std::size_t owners_at(std::uint64_t position, std::span<node_id> out) const noexcept;
  /// Whether the node `id` is among the first `replicas` owners of the key.
  bool owns(node_id id, const page_key& key, std::size_t replicas) const noexcept;

  /// The incarnation that the node `id` had when the ring was built; zero for a node that is not in
  /// the ring.
  incarnation incarnation_of(node_id id) const noexcept;

  /// The share of each member, exact for uniform keys, sorted by id. Takes milliseconds with 1,000
  /// members.
  /// @pre replicas <= replicas_max
  std::vector<share> shares(std::size_t replicas) const;

  std::size_t members() const noexcept { return members_.size(); }
  bool empty() const noexcept { return members_.empty(); }

  /// The most owners that one key may have.
  static constexpr std::size_t replicas_max = 8;

private:
  struct point {
    std::uint64_t position;
    std::uint32_t member; ///< Index of the point's owner in `members_`.
  };
  struct entry {
    node_id id;
    incarnation inc;
  };

  std::size_t first_at_or_after(std::uint64_t position) const noexcept;

  /// Members that do not drain (all members, if all drain), sorted by id.
  std::vector<entry> members_;
  std::vector<point> points_; ///< The virtual nodes of all members, sorted by position.
  /// For each value of a position's top bits, the index of the first point at or behind that value:
  /// so a look-up takes about one step instead of a binary search (160 points per member).
  std::vector<std::uint32_t> first_points_;
  std::uint32_t top_shift_ = 63;
};

} // namespace peercache::discovery
