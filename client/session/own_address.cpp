#include "client/session/own_address.hpp"

#include "common/loopback.hpp"
#include "net/socket.hpp"

#include <memory>
#include <utility>

namespace peercache::client {

own_address::own_address(std::string given)
    : given_(net::is_numeric(given) && !is_loopback(given) ? std::move(given) : std::string()) {}

std::string own_address::host(const discovery::member& node) const {
  const bool is_given = !given_.empty() && node.inc == node_.inc && !advertised_;
  return is_given ? given_ : node.host;
}

discovery::member own_address::to_dial(const discovery::member& node, bool is_own) {
  std::lock_guard guard{lock_};
  if (!is_own && node.inc != node_.inc)
    return node;
  if (node.inc != node_.inc)
    advertised_ = false;
  node_ = node;
  stood_ = tried_other_ = false;
  auto reached = node;
  reached.host = host(node);
  return reached;
}

std::optional<discovery::member> own_address::heard(const incarnation& member, bool stands) {
  std::lock_guard guard{lock_};
  if (member != node_.inc)
    return std::nullopt;
  if (stands) {
    stood_ = true;
    return std::nullopt;
  }
  if (stood_ || tried_other_ || given_.empty() || given_ == node_.host)
    return std::nullopt;
  tried_other_ = true;
  advertised_ = !advertised_;
  auto reached = node_;
  reached.host = host(node_);
  return reached;
}

std::string own_address::host_of(const discovery::member& node) const {
  std::lock_guard guard{lock_};
  return host(node);
}

link::topology_ptr own_address::as_reached(const link::topology_ptr& next) const {
  std::lock_guard guard{lock_};
  const auto* here = next->find(node_.inc);
  if (here == nullptr || host(here->self) == here->self.host)
    return next;
  auto changed = std::make_shared<link::topology>(*next);
  changed->peers[static_cast<std::size_t>(here - next->peers.data())].self.host = host(here->self);
  return changed;
}

} // namespace peercache::client
