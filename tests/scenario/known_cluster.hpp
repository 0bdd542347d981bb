#pragma once

#include "discovery/hash_ring.hpp"
#include "discovery/liveness.hpp"
#include "discovery/view.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

namespace peercache::scenario {

using ring_ptr = std::shared_ptr<const discovery::hash_ring>;

/// A view, its ring, and the rings before it: what one process goes by when it asks the directory.
/// As actors::topology, which knows actors. Immutable once shared.
struct known_cluster {
  struct former_ring {
    ring_ptr ring;
    discovery::time_point left_at;
  };

  discovery::view view;
  ring_ptr ring = std::make_shared<const discovery::hash_ring>();
  std::vector<former_ring> past; ///< Newest first.
};
using known_cluster_ptr = std::shared_ptr<const known_cluster>;

/// What is known once a newer view has come: as actors::links_state.
inline known_cluster_ptr succeeded(const known_cluster& before, const discovery::view& next,
                                   ring_ptr ring, discovery::time_point now) {
  constexpr auto grace = std::chrono::seconds(3);
  constexpr std::size_t past_max = 4;
  auto known = std::make_shared<known_cluster>();
  known->view = next;
  known->ring = std::move(ring);
  known->past = before.past;
  auto& past = known->past;
  if (before.view.members.empty())
    return known;
  std::erase_if(past, [&](const auto& former) { return now - former.left_at >= grace; });
  past.insert(past.begin(), {before.ring, now});
  if (past.size() > past_max)
    past.erase(past.end() - 2);
  return known;
}

} // namespace peercache::scenario
