#include "common/assert.hpp"
#include "storage/adaptive_policy.hpp"

namespace peercache::storage {

std::unique_ptr<eviction_policy> make_eviction_policy(eviction_kind kind,
                                                      std::uint64_t capacity_bytes) {
  PEERCACHE_ASSERT(capacity_bytes > 0);
  switch (kind) {
  case eviction_kind::lru:
    return std::make_unique<lru>();
  case eviction_kind::s3fifo:
    return std::make_unique<s3fifo>(capacity_bytes);
  case eviction_kind::automatic:
    return std::make_unique<adaptive_policy>(capacity_bytes);
  }
  PEERCACHE_ASSERT(!"an eviction_kind that is none");
  return nullptr;
}

} // namespace peercache::storage
