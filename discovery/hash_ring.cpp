#include "discovery/hash_ring.hpp"

#include "common/assert.hpp"
#include "common/checksum.hpp"
#include "common/limits.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

namespace peercache::discovery {

namespace {

std::uint64_t position_of(node_id id, std::uint32_t replica) noexcept {
  std::array<std::uint64_t, 2> words{id.value, replica};
  return checksum_of(std::as_bytes(std::span(words)));
}

} // namespace

hash_ring::parts::parts(std::span<const member> all) {
  const bool all_drain =
      std::all_of(all.begin(), all.end(), [](const member& m) { return m.draining; });
  members.reserve(all.size());
  for (const auto& m : all)
    if (!m.draining || all_drain)
      members.push_back({m.id, m.inc});
  std::sort(members.begin(), members.end(),
            [](const entry& a, const entry& b) { return a.id < b.id; });
  // With equal ids a search for as many owners as there are members would never end.
  PEERCACHE_ASSERT(
      std::adjacent_find(members.begin(), members.end(), [](const entry& a, const entry& b) {
        return a.id == b.id;
      }) == members.end());
}

void hash_ring::parts::place_members(const parts* before) {
  constexpr auto gone = std::numeric_limits<std::uint32_t>::max();
  // The members of this ring and of `before` are sorted by id.
  std::vector<std::uint32_t> index_now(before ? before->members.size() : 0, gone);
  std::vector<point> fresh;
  std::size_t old = 0;
  for (std::uint32_t i = 0; i < members.size(); ++i) {
    while (old < index_now.size() && before->members[old].id < members[i].id)
      ++old;
    if (old < index_now.size() && before->members[old].id == members[i].id)
      index_now[old] = i;
    else
      for (std::uint32_t replica = 0; replica < virtual_nodes; ++replica)
        fresh.push_back({position_of(members[i].id, replica), i});
  }
  std::sort(fresh.begin(), fresh.end());
  points.reserve(members.size() * virtual_nodes);
  auto next = fresh.begin();
  for (std::size_t i = 0; before && i < before->points.size(); ++i) {
    const point kept{before->points[i].position, index_now[before->points[i].member]};
    if (kept.member == gone)
      continue;
    while (next != fresh.end() && *next < kept)
      points.push_back(*next++);
    points.push_back(kept);
  }
  points.insert(points.end(), next, fresh.end());
  PEERCACHE_ASSERT(points.size() == members.size() * virtual_nodes);
}

void hash_ring::parts::index_points() {
  const auto top_bits = static_cast<std::uint32_t>(std::bit_width(points.size()));
  top_shift = 64 - top_bits;
  first_points.assign((std::size_t{1} << top_bits) + 1, static_cast<std::uint32_t>(points.size()));
  for (auto i = points.size(); i-- > 0;)
    first_points[points[i].position >> top_shift] = static_cast<std::uint32_t>(i);
  for (auto i = first_points.size() - 1; i-- > 0;)
    first_points[i] = std::min(first_points[i], first_points[i + 1]);
}

void hash_ring::parts::chain_points() {
  std::uint32_t other = 0; // Behind the last point the ring goes on with the first one.
  for (auto i = static_cast<std::uint32_t>(points.size()); i-- > 0;) {
    if (i + 1 < points.size() && points[i + 1].member != points[i].member)
      other = i + 1;
    points[i].next_other = other;
  }
}

hash_ring::hash_ring(std::span<const member> members, const hash_ring& before) {
  PEERCACHE_ASSERT(members.size() <= limits::members_max);
  if (members.empty())
    return;
  auto made = std::make_shared<parts>(members);
  made->place_members(before.made_.get());
  made->index_points();
  made->chain_points();
  made_ = std::move(made);
}

/// The index of the first point at or clockwise of `position`; behind the last point the ring goes
/// on with the first one.
std::size_t hash_ring::parts::first_at_or_after(std::uint64_t position) const noexcept {
  std::size_t i = first_points[position >> top_shift];
  while (i < points.size() && points[i].position < position)
    ++i;
  return i < points.size() ? i : 0;
}

std::size_t hash_ring::parts::owners_at(std::uint64_t position,
                                        std::span<node_id> out) const noexcept {
  const auto wanted = std::min(out.size(), members.size());
  std::size_t found = 0;
  for (auto i = first_at_or_after(position); found < wanted; i = points[i].next_other) {
    auto id = members[points[i].member].id;
    auto end = out.begin() + static_cast<std::ptrdiff_t>(found);
    if (std::find(out.begin(), end, id) == end)
      out[found++] = id;
  }
  return found;
}

std::size_t hash_ring::owners_at(std::uint64_t position, std::span<node_id> out) const noexcept {
  return made_ ? made_->owners_at(position, out) : 0;
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
  if (empty())
    return all;
  for (const auto& member : made_->members)
    all.push_back({member.id});
  const auto& points = made_->points;
  std::array<node_id, replicas_max> owners;
  for (std::size_t i = 0; i < points.size(); ++i) {
    // A point owns the keys from the previous point's position up to its own; the range of the
    // first point wraps over zero.
    const auto before = points[(i + points.size() - 1) % points.size()].position;
    const double keys = std::ldexp(static_cast<double>(points[i].position - before), -64);
    all[points[i].member].first += keys;
    const auto count = owners_at(points[i].position, std::span(owners).first(replicas));
    for (const auto& owner : std::span(owners).first(count))
      std::lower_bound(all.begin(), all.end(), owner, [](const share& s, node_id wanted) {
        return s.id < wanted;
      })->listed += keys;
  }
  return all;
}

incarnation hash_ring::incarnation_of(node_id id) const noexcept {
  if (empty())
    return {};
  const auto& all = made_->members;
  const auto at = std::lower_bound(all.begin(), all.end(), id,
                                   [](const entry& e, node_id wanted) { return e.id < wanted; });
  return at != all.end() && at->id == id ? at->inc : incarnation{};
}

} // namespace peercache::discovery
