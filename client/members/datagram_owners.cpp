#include "client/members/datagram_owners.hpp"

#include <utility>

namespace peercache::client {

void datagram_owners::learn(const incarnation& member, const std::string& host, std::uint16_t port,
                            const link::datagram_pass& pass) {
  const auto at = net::datagram_address::of(host, port);
  if (!wanted_ || !at)
    return;
  auto made = std::make_shared<datagram_owner>(member, *at, pass);
  std::lock_guard guard{lock_};
  owners_[member] = std::move(made);
}

void datagram_owners::forget(const incarnation& member) {
  std::lock_guard guard{lock_};
  owners_.erase(member);
}

std::shared_ptr<datagram_owner> datagram_owners::find(const incarnation& member,
                                                      time_point now) const {
  std::lock_guard guard{lock_};
  const auto found = owners_.find(member);
  if (found == owners_.end() || !found->second->is_usable(now))
    return nullptr;
  return found->second;
}

std::unique_ptr<net::datagram_socket> datagram_owners::lease(int family) {
  {
    std::lock_guard guard{lock_};
    auto& idle = idle_[family];
    if (!idle.empty()) {
      auto socket = std::move(idle.back());
      idle.pop_back();
      return socket;
    }
  }
  auto opened = net::datagram_socket::open(family);
  return opened ? std::make_unique<net::datagram_socket>(std::move(*opened)) : nullptr;
}

void datagram_owners::give_back(int family, std::unique_ptr<net::datagram_socket> socket) {
  std::lock_guard guard{lock_};
  auto& idle = idle_[family];
  if (idle.size() < idle_sockets_max)
    idle.push_back(std::move(socket));
}

} // namespace peercache::client
