#include "link/connector_actor.hpp"

#include "common/assert.hpp"
#include "common/printable.hpp"
#include "common/result.hpp"
#include "link/caf_fault.hpp"
#include "link/node_middleman.hpp"
#include "link/system_config.hpp"
#include "net/host_socket.hpp"

#include <caf/io/basp_broker.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <set>
#include <utility>
#include <vector>

namespace peercache::link {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

using connector_pointer = connector_actor::stateful_pointer<connector_state>;

/// Pause between two looks at sockets that `connector_state::watch` does not wait for.
constexpr milliseconds look_again{2};

caf::error cannot_connect(const std::string& why) {
  return caf::make_error(caf::sec::cannot_connect_to_node, why);
}

/// Gives the connected socket to CAF, whose handshake asks for the gateway at the other end.
void give_socket(connector_pointer self, connector_state::dial& done) {
  PEERCACHE_ASSERT(done.socket); // A socket is given once.
  if (done.watched)
    self->state.watch->remove(done.socket.get());
  auto basp = self->system().middleman().named_broker<caf::io::basp_broker>(caf::atom("BASP"));
  auto scribe = new_scribe(self->system(), std::move(done.socket), std::move(done.tls));
  // The handshake gets more time than the connect, so that a loaded peer can still answer.
  self->request(basp, self->state.timeout * 4, caf::connect_atom_v, std::move(scribe), done.port)
      .then(
          [promise = done.promise](caf::node_id&, caf::strong_actor_ptr& found,
                                   std::set<std::string>&) mutable {
            if (found)
              promise.deliver(caf::actor_cast<gateway_actor>(found));
            else
              promise.deliver(caf::make_error(caf::sec::no_actor_published_at_port));
          },
          [promise = done.promise](caf::error& err) mutable { promise.deliver(std::move(err)); });
}

std::string other_node_of(const std::string& shown, const std::string& meant) {
  return "its certificate is that of the node '" + peer_text(shown) + "', and '" +
         peer_text(meant) +
         "' is meant: each node needs one of its own (`peercache ca issue node`)";
}

/// Adds an open socket to the watch, which waits for the socket's news. Without a free descriptor
/// or thread the socket stays unwatched.
template <class Open>
void watch_over(connector_pointer self, Open& one) {
  auto& watch = self->state.watch;
  if (one.watched)
    return;
  if (!watch)
    if (auto begun = socket_watch::begin(
            [to = connector_actor(self)] { caf::anon_send(to, beat_atom_v, from_here{}); }))
      watch = std::move(*begun);
  one.watched = watch && watch->add(one.socket.get());
}

/// Takes the next step of a dial whose socket is ready or has failed. True when the dial is over.
bool go_on(connector_pointer self, connector_state::dial& one) {
  if (!one.tls) {
    if (const int failure = net::socket_error(one.socket.get()); failure != 0) {
      one.promise.deliver(cannot_connect(std::strerror(failure)));
      return true;
    }
    if (!self->state.tls || one.on_host) {
      give_socket(self, one);
      return true;
    }
    // A peer that is connected gets more time for the handshake, so that a loaded peer can still
    // answer.
    one.until = steady_clock::now() + self->state.timeout * 4;
    one.tls.emplace(self->state.tls->dialled(one.socket.get()));
  }
  const auto step = one.tls->shake_hands();
  if (step == net::tls_session::step::established) {
    if (const auto& name = one.tls->peer().name; !one.name.empty() && name != one.name)
      one.promise.deliver(cannot_connect(no_tls_with_it + other_node_of(name, one.name)));
    else
      give_socket(self, one);
  } else if (step == net::tls_session::step::refused)
    one.promise.deliver(cannot_connect(no_tls_with_it + one.tls->refusal()));
  return step != net::tls_session::step::working;
}

/// Takes the next step of a dial if its socket has news, and ends it if its time has passed. False
/// when the dial goes on.
bool finish(connector_pointer self, connector_state::dial& one, bool has_news) {
  if (has_news && go_on(self, one))
    return true;
  if (steady_clock::now() < one.until) {
    watch_over(self, one);
    return false;
  }
  one.promise.deliver(
      cannot_connect(one.tls ? "no answer to the handshake of TLS" : "no answer to the connect"));
  return true;
}

/// Ends the trials whose socket has news or whose time has passed.
void look_after_trials(connector_pointer self) {
  std::erase_if(self->state.trials, [self](connector_state::trial& one) {
    pollfd awaited{one.socket.get(), POLLOUT, 0};
    const bool has_news = ::poll(&awaited, 1, 0) > 0;
    if (!has_news && steady_clock::now() < one.until) {
      watch_over(self, one);
      return false;
    }
    const int failure = has_news ? net::socket_error(one.socket.get()) : ETIMEDOUT;
    one.promise.deliver(failure == 0 ? std::string{} : std::string(std::strerror(failure)));
    return true;
  });
}

void look_after_dials(connector_pointer self) {
  auto& dials = self->state.dials;
  std::vector<pollfd> waiting;
  for (const auto& each : dials)
    waiting.push_back({each.socket.get(), each.tls ? each.tls->awaited() : short{POLLOUT}, 0});
  ::poll(waiting.data(), waiting.size(), 0);
  std::size_t next = 0;
  std::erase_if(dials, [&](connector_state::dial& one) {
    return finish(self, one, waiting[next++].revents != 0);
  });
  PEERCACHE_ASSERT(next == waiting.size()); // Each dial had the news of its own socket.
}

/// When the time of the first dial or trial is over.
steady_clock::time_point first_end(const connector_state& state) {
  auto first = steady_clock::time_point::max();
  for (const auto& each : state.dials)
    first = std::min(first, each.until);
  for (const auto& each : state.trials)
    first = std::min(first, each.until);
  return first;
}

bool has_unwatched(const connector_state& state) {
  const auto unwatched = [](const auto& each) { return !each.watched; };
  return std::any_of(state.dials.begin(), state.dials.end(), unwatched) ||
         std::any_of(state.trials.begin(), state.trials.end(), unwatched);
}

/// Ends dials and trials that are over. The watch tells when there may be more to end: a socket has
/// news, or a time is over.
void look_after_all(connector_pointer self) {
  auto& state = self->state;
  look_after_dials(self);
  look_after_trials(self);
  if (state.watch)
    state.watch->look_at(first_end(state));
  const auto now = steady_clock::now();
  if (has_unwatched(state) && now >= state.look_at) {
    state.look_at = now + look_again;
    self->delayed_send(self, look_again, beat_atom_v, from_here{});
  }
}

/// Begins to connect: to the Unix socket of a node on this host if `state.sockets` has one,
/// otherwise to the control port.
result<void> begin_connect(const connector_state& state, const std::string& host,
                           connector_state::dial& one) {
  if (state.sockets)
    one.socket = state.sockets->connect(host, one.port);
  one.on_host = static_cast<bool>(one.socket);
  if (one.on_host)
    return {};
  if (state.sockets && state.tls && state.tls->self().role == net::tls_role::client)
    return {errc::unreachable,
            "there is no Unix socket of it that this user may use, and a client's certificate is "
            "good for that alone (net.socket_folder); another host's node takes an operator's "
            "(`peercache ca issue operator NAME`)"};
  auto socket = net::start_connect(host, one.port, {.user_timeout = {}});
  if (!socket)
    return socket.error();
  one.socket = std::move(*socket);
  return {};
}

caf::result<gateway_actor> dial_node(connector_pointer self, const std::string& host,
                                     std::uint16_t port, const std::string& name) {
  connector_state::dial started;
  started.name = name;
  started.port = port;
  started.until = steady_clock::now() + self->state.timeout;
  if (auto begun = begin_connect(self->state, host, started); !begun)
    return cannot_connect(begun.error().message);
  started.promise = self->make_response_promise<gateway_actor>();
  auto promise = started.promise;
  self->state.dials.push_back(std::move(started));
  self->send(self, beat_atom_v, from_here{});
  return promise;
}

caf::result<std::string> try_port(connector_pointer self, const std::string& host,
                                  std::uint16_t port) {
  auto socket = net::start_connect(host, port, {.user_timeout = {}});
  if (!socket)
    return socket.error().message;
  connector_state::trial started;
  started.until = steady_clock::now() + self->state.timeout * 4;
  started.socket = std::move(*socket);
  started.promise = self->make_response_promise<std::string>();
  auto promise = started.promise;
  self->state.trials.push_back(std::move(started));
  self->send(self, beat_atom_v, from_here{});
  return promise;
}

} // namespace

std::string tls_fault_of(const caf::error& why) {
  const auto fault = fault_of(why);
  const std::string_view words(fault.message);
  return words.starts_with(no_tls_with_it) ? std::string(words.substr(std::strlen(no_tls_with_it)))
                                           : std::string();
}

connector_actor::behavior_type run_connector(connector_pointer self, milliseconds timeout,
                                             std::optional<net::host_sockets> sockets) {
  self->state.timeout = timeout;
  self->state.sockets = std::move(sockets);
  self->state.tls = tls_of(self->system());
  return {
      [self](dial_atom, const std::string& host, std::uint16_t port, const std::string& name,
             from_here) { return dial_node(self, host, port, name); },
      [self](try_atom, const std::string& host, std::uint16_t port, from_here) {
        return try_port(self, host, port);
      },
      [self](beat_atom, from_here) { look_after_all(self); },
  };
}

} // namespace peercache::link
