#include "link/links_actor.hpp"

#include "common/assert.hpp"
#include "common/guards.hpp"
#include "common/log.hpp"
#include "discovery/view_codec.hpp"

#include <algorithm>
#include <utility>

namespace peercache::link {

bool links_state::begins_anew(const discovery::view& next) const {
  return !options.self && next.term != 0 &&
         std::none_of(next.members.begin(), next.members.end(),
                      [this](const auto& member) { return view.find(member.inc) != nullptr; });
}

bool links_state::adopt(discovery::view next, caf::actor_clock::time_point now) {
  const bool newer = next.newer_than(view) || begins_anew(next);
  if (next == view || (!newer && guard_on(guard::view)))
    return false;
  if (!view.members.empty())
    past.remember(std::make_shared<const discovery::hash_ring>(ring), now);
  view = std::move(next);
  std::erase_if(links, [this](const auto& known) { return view.find(known.first) == nullptr; });
  for (const auto& member : view.members) {
    auto& known = links[member.inc];
    if (options.self && options.self->self.inc == member.inc)
      known.handles = *options.self;
    known.handles.self = member; // The view's entry is newer: it says whether the member drains.
  }
  ring = discovery::hash_ring{view.members};
  return true;
}

topology_ptr links_state::snapshot() const {
  auto next = std::make_shared<topology>();
  next->view = view;
  next->ring = ring;
  next->past = past;
  for (const auto& member : view.members)
    next->peers.push_back(links.at(member.inc).handles);
  // Each member of the view has its peer at the same index.
  PEERCACHE_ASSERT(next->peers.size() == next->view.members.size());
  return next;
}

bool links_state::lost(const caf::actor_addr& address, caf::actor_clock::time_point retry_at) {
  for (auto& [inc, known] : links) {
    if (!known.handles.linked() || known.handles.gateway.address() != address)
      continue;
    peer bare;
    bare.self = known.handles.self;
    bare.tried = true;
    known.handles = bare;
    known.retry_at = retry_at;
    return true;
  }
  return false;
}

namespace {

using links_pointer = links_actor::stateful_pointer<links_state>;

void dial_failed(links_pointer self, const incarnation& inc, const caf::error& why) {
  auto& state = self->state;
  auto found = state.links.find(inc);
  if (found == state.links.end())
    return;
  found->second.dialing = false;
  found->second.retry_at = self->clock().now() + state.options.retry;
  log::debug("links: {} is out of reach: {}", found->second.handles.self.name,
             self->system().render(why));
  if (!std::exchange(found->second.handles.tried, true))
    state.options.publish(state.snapshot());
}

void linked(links_pointer self, const incarnation& inc, const gateway_actor& gateway,
            const peer_welcome& welcome) {
  auto& state = self->state;
  auto found = state.links.find(inc);
  if (found == state.links.end())
    return;
  auto said = discovery::decode_member(welcome.member);
  if (!said || said->inc != inc)
    return dial_failed(self, inc, caf::make_error(caf::sec::runtime_error, "another incarnation"));
  auto& known = found->second;
  PEERCACHE_ASSERT(gateway);
  known.dialing = false;
  known.handles.tried = true;
  known.handles.gateway = gateway;
  known.handles.directory = welcome.directory;
  known.handles.membership = welcome.membership;
  known.handles.lookup_port = welcome.lookup_port;
  self->monitor(gateway);
  log::debug("links: connected with {}", known.handles.self.name);
  state.options.publish(state.snapshot());
}

void dial(links_pointer self, const incarnation& inc, links_state::link& known) {
  auto& options = self->state.options;
  // A member is greeted again only when its last greeting has ended.
  PEERCACHE_ASSERT(!known.dialing);
  known.dialing = true;
  auto failed = [self, inc](const caf::error& why) { dial_failed(self, inc, why); };
  self->request(options.connector, std::chrono::seconds(30), dial_atom_v, known.handles.self.host,
                known.handles.self.control_port, from_here{})
      .then(
          [self, inc, failed](const gateway_actor& gateway) {
            auto& opts = self->state.options;
            self->request(gateway, opts.hello_timeout, hello_atom_v, wire_version, opts.cluster,
                          opts.own_name)
                .then([self, inc, gateway](
                          const peer_welcome& welcome) { linked(self, inc, gateway, welcome); },
                      failed);
          },
          failed);
}

void dial_whoever_is_missing(links_pointer self) {
  auto now = self->clock().now();
  for (auto& [inc, known] : self->state.links)
    if (!known.handles.linked() && !known.dialing && known.retry_at <= now)
      dial(self, inc, known);
}

} // namespace

links_actor::behavior_type run_links(links_pointer self, links_options options) {
  self->state.options = std::move(options);
  PEERCACHE_ASSERT(self->state.options.publish && self->state.options.retry.count() > 0);
  self->set_default_handler(caf::drop);
  self->set_down_handler([self](const caf::down_msg& down) {
    auto& state = self->state;
    if (state.lost(down.source, self->clock().now()))
      state.options.publish(state.snapshot());
  });
  self->delayed_send(self, self->state.options.retry / 2, beat_atom_v, from_here{});
  return {
      [self](view_atom, const std::string& encoded, from_here) {
        auto next = discovery::decode_view(encoded);
        if (!next || !self->state.adopt(std::move(*next), self->clock().now()))
          return;
        self->state.options.publish(self->state.snapshot());
        dial_whoever_is_missing(self);
      },
      [self](beat_atom, from_here) {
        dial_whoever_is_missing(self);
        self->delayed_send(self, self->state.options.retry / 2, beat_atom_v, from_here{});
      },
  };
}

} // namespace peercache::link
