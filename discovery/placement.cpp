#include "discovery/placement.hpp"

#include "common/assert.hpp"

#include <algorithm>
#include <array>

namespace peercache::discovery {

std::size_t new_owners(const hash_ring& before, const hash_ring& after, const page_key& key,
                       std::size_t replicas, std::span<node_id> out) noexcept {
  PEERCACHE_ASSERT(replicas <= hash_ring::replicas_max && out.size() >= replicas);
  std::array<node_id, hash_ring::replicas_max> old_ids;
  std::array<node_id, hash_ring::replicas_max> new_ids;
  auto old_count = before.owners(key, std::span(old_ids).first(replicas));
  auto new_count = after.owners(key, std::span(new_ids).first(replicas));
  auto old_end = old_ids.begin() + static_cast<std::ptrdiff_t>(old_count);
  std::size_t written = 0;
  for (std::size_t i = 0; i < new_count; ++i) {
    auto id = new_ids[i];
    bool knows = std::find(old_ids.begin(), old_end, id) != old_end &&
                 before.incarnation_of(id) == after.incarnation_of(id);
    if (!knows)
      out[written++] = id;
  }
  return written;
}

} // namespace peercache::discovery
