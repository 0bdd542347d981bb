#pragma once

#include "discovery/former_rings.hpp"
#include "discovery/hash_ring.hpp"
#include "discovery/liveness.hpp"
#include "discovery/view.hpp"

#include <memory>

namespace peercache::scenario {

using ring_ptr = std::shared_ptr<const discovery::hash_ring>;

/// A view, its ring, and the rings before it: what one process knows when it asks the directory.
/// Corresponds to link::topology, which knows actors. Immutable once shared.
struct known_cluster {
  discovery::view view;
  ring_ptr ring = std::make_shared<const discovery::hash_ring>();
  discovery::former_rings past;
};
using known_cluster_ptr = std::shared_ptr<const known_cluster>;

/// Returns what a process knows once it follows the newer view `next`: `before`'s ring joins the
/// former rings. Corresponds to link::links_state.
inline known_cluster_ptr succeeded(const known_cluster& before, const discovery::view& next,
                                   ring_ptr ring, discovery::time_point now) {
  auto known = std::make_shared<known_cluster>();
  known->view = next;
  known->ring = std::move(ring);
  known->past = before.past;
  if (!before.view.members.empty())
    known->past.remember(before.ring, now);
  return known;
}

} // namespace peercache::scenario
