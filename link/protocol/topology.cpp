#include "link/protocol/topology.hpp"

#include <algorithm>

namespace peercache::link {

const peer* topology::find(node_id id) const noexcept {
  auto found = std::lower_bound(peers.begin(), peers.end(), id,
                                [](const peer& p, node_id x) { return p.self.id < x; });
  return found != peers.end() && found->self.id == id ? &*found : nullptr;
}

const peer* topology::find(node_id id, const incarnation& inc) const noexcept {
  const auto* known = find(id);
  return known != nullptr && known->self.inc == inc ? known : nullptr;
}

const peer* topology::find(const incarnation& inc) const noexcept {
  auto found =
      std::find_if(peers.begin(), peers.end(), [&](const peer& p) { return p.self.inc == inc; });
  return found != peers.end() ? &*found : nullptr;
}

} // namespace peercache::link
