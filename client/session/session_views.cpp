#include "client/session/session_views.hpp"

#include "common/guards.hpp"
#include "common/log.hpp"
#include "discovery/view_difference.hpp"

#include <chrono>
#include <utility>

namespace peercache::client {

using namespace link;

namespace {

using session_pointer = session_actor::stateful_pointer<session_actor_state>;

constexpr std::chrono::seconds whole_view_timeout{5};

void tell_links(session_pointer self, std::string whole) {
  const auto& links = self->state.options.links;
  // Only tests set this fault: see common/guards.hpp.
  if (auto late_ms = fault_setting(fault::views_late_ms); late_ms != 0)
    self->delayed_send(links, std::chrono::milliseconds(late_ms), view_atom_v, std::move(whole),
                       from_here{});
  else
    self->send(links, view_atom_v, std::move(whole), from_here{});
}

void ask_for_whole_view(session_pointer self) {
  const auto pool = self->state.options.board->pool();
  if (!pool)
    return;
  self->request(pool->gateway, whole_view_timeout, view_atom_v)
      .then(
          [self](const std::string& whole) {
            // A whole view can be read whatever was told before, so this asks no second time.
            if (discovery::decode_view(whole))
              hear_view(self, whole);
          },
          [](const caf::error&) {});
}

} // namespace

void hear_view(session_pointer self, const std::string& told) {
  auto next = discovery::decode_told_view(told, self->state.nodes_view);
  if (!next) {
    log::debug("client: the node's view is asked for: {}", to_string(next.error()));
    return ask_for_whole_view(self);
  }
  self->state.nodes_view = std::move(*next);
  tell_links(self, discovery::encode_view(self->state.nodes_view));
}

} // namespace peercache::client
