#include "discovery/former_rings.hpp"

#include "common/assert.hpp"

#include <utility>

namespace peercache::discovery {

void former_rings::remember(ring_ptr ring, time_point now) {
  PEERCACHE_ASSERT(ring != nullptr);
  // The newest former ring is in front.
  PEERCACHE_ASSERT(rings_.empty() || now >= rings_.front().left_at);
  std::erase_if(rings_,
                [&](const former& one) { return now - one.left_at >= former_owners_asked; });
  rings_.insert(rings_.begin(), {std::move(ring), now});
  if (rings_.size() > kept_max)
    rings_.erase(rings_.end() - 2);
}

std::vector<const hash_ring*> former_rings::asked_at(time_point now) const {
  std::vector<const hash_ring*> asked;
  for (const auto& one : rings_)
    if (now - one.left_at < former_owners_asked)
      asked.push_back(one.ring.get());
  return asked;
}

} // namespace peercache::discovery
