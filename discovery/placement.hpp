#pragma once

#include "discovery/hash_ring.hpp"

#include <span>

namespace peercache::discovery {

/// The owners that `key` has in `after` and did not have in `before`: a producer must tell them
/// again. A node that was restarted counts as new, for its shard is empty. Writes them to `out` and
/// returns how many there are.
/// @pre out.size() >= replicas; replicas <= hash_ring::replicas_max.
std::size_t new_owners(const hash_ring& before, const hash_ring& after, const page_key& key,
                       std::size_t replicas, std::span<node_id> out) noexcept;

} // namespace peercache::discovery
