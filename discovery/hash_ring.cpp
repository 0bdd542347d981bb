#include "discovery/hash_ring.hpp"

#include "common/assert.hpp"
#include "common/checksum.hpp"
#include "common/limits.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace peercache::discovery {

namespace {

std::uint64_t position_of(node_id id, std::uint32_t replica) noexcept {
  std::array<std::uint64_t, 2> words{id.value, replica};
  return checksum_of(std::as_bytes(std::span(words)));
}

} // namespace

hash_ring::hash_ring(std::span<const member> members) {
  PEERCACHE_ASSERT(members.size() <= limits::members_max);
  if (members.empty())
    return;
  const bool all_drain =
      std::all_of(members.begin(), members.end(), [](const member& m) { return m.draining; });
  members_.reserve(members.size());
  for (const auto& m : members)
    if (!m.draining || all_drain)
      members_.push_back({m.id, m.inc});
  std::sort(members_.begin(), members_.end(),
            [](const entry& a, const entry& b) { return a.id < b.id; });
  // With equal ids a search for as many owners as there are members would never end.
  PEERCACHE_ASSERT(
      std::adjacent_find(members_.begin(), members_.end(), [](const entry& a, const entry& b) {
        return a.id == b.id;
      }) == members_.end());
  points_.reserve(members_.size() * virtual_nodes);
  for (std::uint32_t i = 0; i < members_.size(); ++i)
    for (std::uint32_t replica = 0; replica < virtual_nodes; ++replica)
      points_.push_back({position_of(members_[i].id, replica), i});
  // Points at equal positions are next to impossible, yet all nodes must order such points alike:
  // by member id.
  std::sort(points_.begin(), points_.end(), [](const point& a, const point& b) {
    return a.position != b.position ? a.position < b.position : a.member < b.member;
  });
  auto top_bits = static_cast<std::uint32_t>(std::bit_width(points_.size()));
  top_shift_ = 64 - top_bits;
  first_points_.assign((std::size_t{1} << top_bits) + 1,
                       static_cast<std::uint32_t>(points_.size()));
  for (auto i = points_.size(); i-- > 0;)
    first_points_[points_[i].position >> top_shift_] = static_cast<std::uint32_t>(i);
  for (auto i = first_points_.size() - 1; i-- > 0;)
    first_points_[i] = std::min(first_points_[i], first_points_[i + 1]);
}

/// The index of the first point at or clockwise of `position`; behind the last point the ring goes
/// on with the first one. @pre The ring has members.
std::size_t hash_ring::first_at_or_after(std::uint64_t position) const noexcept {
  std::size_t i = first_points_[position >> top_shift_];
  while (i < points_.size() && points_[i].position < position)
    ++i;
  return i < points_.size() ? i : 0;
}

std::size_t hash_ring::owners_at(std::uint64_t position, std::span<node_id> out) const noexcept {
  auto wanted = std::min(out.size(), members_.size());
  if (wanted == 0)
    return 0;
  std::size_t found = 0;
  for (auto i = first_at_or_after(position); found < wanted; i = (i + 1) % points_.size()) {
    auto id = members_[points_[i].member].id;
    auto end = out.begin() + static_cast<std::ptrdiff_t>(found);
    if (std::find(out.begin(), end, id) == end)
      out[found++] = id;
  }
  return found;
}

bool hash_ring::owns(node_id id, const page_key& key, std::size_t replicas) const noexcept {
  PEERCACHE_ASSERT(replicas <= replicas_max);
  std::array<node_id, replicas_max> found;
  auto end =
      found.begin() + static_cast<std::ptrdiff_t>(owners(key, std::span(found).first(replicas)));
  return std::find(found.begin(), end, id) != end;
}

std::vector<hash_ring::share> hash_ring::shares(std::size_t replicas) const {
  PEERCACHE_ASSERT(replicas <= replicas_max);
  std::vector<share> all;
  for (const auto& member : members_)
    all.push_back({member.id});
  std::array<node_id, replicas_max> owners;
  for (std::size_t i = 0; i < points_.size(); ++i) {
    // A point owns the keys from the previous point's position up to its own; the range of the
    // first point wraps over zero.
    const auto before = points_[(i + points_.size() - 1) % points_.size()].position;
    const double keys = std::ldexp(static_cast<double>(points_[i].position - before), -64);
    all[points_[i].member].first += keys;
    const auto count = owners_at(points_[i].position, std::span(owners).first(replicas));
    for (const auto& owner : std::span(owners).first(count))
      std::lower_bound(all.begin(), all.end(), owner, [](const share& s, node_id wanted) {
        return s.id < wanted;
      })->listed += keys;
  }
  return all;
}

incarnation hash_ring::incarnation_of(node_id id) const noexcept {
  auto at = std::lower_bound(members_.begin(), members_.end(), id,
                             [](const entry& e, node_id wanted) { return e.id < wanted; });
  return at != members_.end() && at->id == id ? at->inc : incarnation{};
}

} // namespace peercache::discovery
