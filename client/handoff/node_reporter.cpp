#include "client/handoff/node_reporter.hpp"

#include "common/log.hpp"
#include "link/connector_actor.hpp"
#include "link/protocol/message_types.hpp"
#include "net/host_socket.hpp"

#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>

#include <chrono>
#include <unistd.h>
#include <utility>

namespace peercache::client {
namespace {

using namespace std::chrono_literals;

constexpr auto reporter_dial_timeout = 300ms;
constexpr auto node_timeout = 2s;
constexpr auto report_interval = 1s;

struct reporter_state {
  node_reporter_options options;
  link::connector_actor connector;
  link::gateway_actor gateway; ///< Null while there is no session.
  std::uint64_t session = 0;
  bool connecting = false;
  static inline const char* name = "node reporter";
};

using reporter = link::session_listener;
using reporter_pointer = reporter::stateful_pointer<reporter_state>;

void tell(reporter_pointer self) {
  auto& state = self->state;
  if (state.gateway)
    self->send(state.gateway, link::report_atom_v, state.session, state.options.totals());
}

void not_connected(reporter_pointer self, const caf::error& why) {
  log::debug("handoff: no node to report to: {}", to_string(why));
  self->state.connecting = false;
}

/// Opens a session after a hello, because only a hello names the cluster.
void greet(reporter_pointer self, const link::gateway_actor& gateway) {
  const auto& own = self->state.options;
  const auto fail = [self](const caf::error& why) { not_connected(self, why); };
  self->request(gateway, node_timeout, link::hello_atom_v, link::wire_version, own.cluster,
                own.name)
      .then(
          [self, gateway, fail](const link::peer_welcome&) {
            self->request(gateway, node_timeout, link::session_atom_v, self->state.options.name,
                          caf::actor_cast<link::session_listener>(self))
                .then(
                    [self, gateway](const link::session_welcome& welcome) {
                      self->state.connecting = false;
                      self->state.gateway = gateway;
                      self->state.session = welcome.session;
                      self->monitor(gateway);
                      tell(self);
                    },
                    fail);
          },
          fail);
}

void look_for_node(reporter_pointer self) {
  auto& state = self->state;
  state.connecting = true;
  self->request(state.connector, 30s, link::dial_atom_v, state.options.host, state.options.port,
                std::string(), link::from_here{})
      .then([self](const link::gateway_actor& gateway) { greet(self, gateway); },
            [self](const caf::error& why) { not_connected(self, why); });
}

reporter::behavior_type run_reporter(reporter_pointer self, const node_reporter_options& options,
                                     const link::connector_actor& connector) {
  self->state.options = options;
  self->state.connector = connector;
  self->set_down_handler([self](const caf::down_msg& gone) {
    if (gone.source == self->state.gateway)
      self->state.gateway = nullptr;
  });
  self->set_exit_handler([self](const caf::exit_msg& message) {
    tell(self);
    if (self->state.gateway)
      self->send(self->state.gateway, link::leave_atom_v, self->state.session);
    self->quit(message.reason);
  });
  self->send(self, link::beat_atom_v, link::from_here{});
  return {[](link::view_atom, const std::string&) {},
          [self](link::beat_atom, link::from_here) {
            if (self->state.gateway)
              tell(self);
            else if (!self->state.connecting)
              look_for_node(self);
            self->delayed_send(self, report_interval, link::beat_atom_v, link::from_here{});
          }};
}

} // namespace

node_reporter::node_reporter(link::thread_actors& threads, node_reporter_options options)
    : system_(threads.system()),
      connector_(system_.spawn(link::run_connector, reporter_dial_timeout, net::host_sockets{})),
      actor_(system_.spawn(run_reporter, std::move(options), connector_)) {
  link::leave_actor_system();
}

node_reporter::~node_reporter() {
  {
    caf::scoped_actor self{system_};
    self->send_exit(actor_, caf::exit_reason::user_shutdown);
    self->send_exit(connector_, caf::exit_reason::user_shutdown);
    // The actor uses `totals`, so the actor must have ended before the objects that `totals` uses.
    self->wait_for(actor_, connector_);
  }
  link::leave_actor_system();
}

std::unique_ptr<node_reporter>
report_to_node(link::thread_actors& threads, const worker_options& options, const std::string& side,
               std::function<metrics::samples(const std::string& name)> totals) {
  if (options.node_port == 0)
    return nullptr;
  node_reporter_options reporter;
  reporter.host = options.node_host;
  reporter.port = options.node_port;
  reporter.cluster = options.cluster;
  reporter.name = side + '-' + std::to_string(::getpid());
  reporter.totals = [name = reporter.name, totals = std::move(totals)] { return totals(name); };
  return std::make_unique<node_reporter>(threads, std::move(reporter));
}

} // namespace peercache::client
