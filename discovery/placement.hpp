#pragma once

#include "discovery/hash_ring.hpp"

#include <span>

namespace peercache::discovery {

/// Writes to `out` the owners that `key` has in `after` and did not have in `before`, and returns
/// how many they are: a producer must tell these owners its record again. A node that was restarted
/// counts as a new owner, for its shard is empty.
/// @pre out.size() >= replicas; replicas <= hash_ring::replicas_max.
std::size_t new_owners(const hash_ring& before, const hash_ring& after, const page_key& key,
                       std::size_t replicas, std::span<node_id> out) noexcept;

} // namespace peercache::discovery
