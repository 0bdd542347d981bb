#include "client/lookup/lookup_channels.hpp"

namespace peercache::client {

std::unique_ptr<net::frame_channel> lookup_channels::lease(const link::peer& member) {
  {
    std::lock_guard guard{lock_};
    auto found = idle_.find(member.self.inc);
    while (found != idle_.end() && !found->second.empty()) {
      auto channel = std::move(found->second.back());
      found->second.pop_back();
      if (channel->lives()) // A node closes connections that are idle for long.
        return channel;
    }
  }
  auto opened = net::frame_channel::open(
      member.self.host, member.lookup_port,
      net::frames::greeting(link::wire_version, cluster_, member.self.inc, magic_), tls_.get());
  return opened ? std::move(*opened) : nullptr;
}

void lookup_channels::give_back(const incarnation& member,
                                std::unique_ptr<net::frame_channel> channel) {
  std::lock_guard guard{lock_};
  auto found = idle_.find(member); // No entry: the member has left the view since the lease.
  if (found != idle_.end() && found->second.size() < idle_per_member_max)
    found->second.push_back(std::move(channel));
}

void lookup_channels::follow(const discovery::view& view) {
  std::lock_guard guard{lock_};
  if (view.stamp() == followed_)
    return;
  followed_ = view.stamp();
  std::erase_if(idle_, [&](const auto& known) { return view.find(known.first) == nullptr; });
  for (const auto& member : view.members)
    idle_.try_emplace(member.inc);
}

} // namespace peercache::client
