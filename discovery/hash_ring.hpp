#pragma once

#include "common/ids.hpp"
#include "common/page_key.hpp"
#include "discovery/view.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

namespace peercache::discovery {

/// Tells which nodes own a key: consistent hashing with 160 virtual nodes for each member. A
/// virtual node's position is XXH3-64 of (node_id, replica), so it depends neither on the other
/// members nor on the incarnation.
///
/// Members that are draining own nothing, unless all members are draining.
///
/// Immutable after construction; threads: any. Memory: 3.1 to 3.8 KiB for each member, shared by
/// all copies.
class hash_ring {
public:
  /// How large a part of all keys a member owns.
  struct share {
    node_id id;
    double first = 0;  ///< Share of all keys whose first owner is this member; 1: all keys.
    double listed = 0; ///< Share of all keys that have this member among their owners.
  };

  static constexpr std::uint32_t virtual_nodes = 160;

  hash_ring() = default;
  explicit hash_ring(std::span<const member> members) : hash_ring(members, {}) {}
  /// Makes the same ring out of that of an earlier view: the virtual nodes of members of both are
  /// not sorted again.
  hash_ring(std::span<const member> members, const hash_ring& before);

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

  std::size_t members() const noexcept { return made_ ? made_->members.size() : 0; }
  bool empty() const noexcept { return members() == 0; }

  /// The most owners that one key may have.
  static constexpr std::size_t replicas_max = 8;

private:
  struct point {
    std::uint64_t position;
    std::uint32_t member; ///< Index of the point's owner in `members`.
    /// Index of the next point with another owner; 0: there is none before the ring's end.
    std::uint32_t next_other = 0;
    /// Points at equal positions are next to impossible, yet all nodes must order such points
    /// alike: by member id.
    bool operator<(const point& other) const noexcept {
      return std::tie(position, member) < std::tie(other.position, other.member);
    }
  };
  struct entry {
    node_id id;
    incarnation inc;
  };
  struct parts {
    explicit parts(std::span<const member> all);

    /// Adds the virtual nodes of all members, of which `before` has some.
    void place_members(const parts* before);
    /// Fills `first_points`.
    void index_points();
    /// Sets `next_other` of all points.
    void chain_points();
    std::size_t first_at_or_after(std::uint64_t position) const noexcept;
    std::size_t owners_at(std::uint64_t position, std::span<node_id> out) const noexcept;

    /// Members that do not drain (all members, if all drain), sorted by id.
    std::vector<entry> members;
    std::vector<point> points; ///< The virtual nodes of all members, sorted.
    /// For each value of a position's top bits, the index of the first point at or behind that
    /// value: a look-up then takes about one step instead of a binary search over 160 points per
    /// member.
    std::vector<std::uint32_t> first_points;
    std::uint32_t top_shift = 63;
  };

  std::shared_ptr<const parts> made_; ///< Null: a ring without members.
};

} // namespace peercache::discovery
