#include "link/connector_actor.hpp"

#include "common/assert.hpp"
#include "common/result.hpp"

#include <caf/io/basp_broker.hpp>

#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <netdb.h>
#include <poll.h>
#include <set>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace peercache::link {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

result<addrinfo*> resolve(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | AI_NUMERICHOST;
  addrinfo* found = nullptr;
  if (auto code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found))
    return {errc::unreachable, "cannot resolve " + host + ": " + gai_strerror(code)};
  return found;
}

/// Begins a connect without waiting for it. Returns the socket, which the caller owns.
result<int> start_connect(const std::string& host, std::uint16_t port) {
  auto addresses = resolve(host, port);
  if (!addresses)
    return addresses.error();
  const auto& first = **addresses;
  int fd = ::socket(first.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  int failure = 0;
  if (fd < 0 || (::connect(fd, first.ai_addr, first.ai_addrlen) != 0 && errno != EINPROGRESS))
    failure = errno;
  freeaddrinfo(*addresses);
  if (failure == 0)
    return fd;
  if (fd >= 0)
    ::close(fd);
  return {errc::unreachable, std::strerror(failure)};
}

using connector_pointer = connector_actor::stateful_pointer<connector_state>;

caf::error cannot_connect(const std::string& why) {
  return caf::make_error(caf::sec::cannot_connect_to_node, why);
}

/// Gives the connected socket to CAF, whose handshake asks for the gateway at the other end.
void give_socket(connector_pointer self, connector_state::dial& done) {
  PEERCACHE_ASSERT(done.fd >= 0); // A socket is given once.
  auto& mm = self->system().middleman();
  auto basp = mm.named_broker<caf::io::basp_broker>(caf::atom("BASP"));
  auto scribe = mm.backend().new_scribe(std::exchange(done.fd, -1));
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

/// Ends a dial whose socket is connected or has failed, or whose time is up. False when the dial
/// goes on.
bool finish(connector_pointer self, connector_state::dial& one, bool has_news) {
  if (has_news) {
    int failure = 0;
    socklen_t size = sizeof failure;
    getsockopt(one.fd, SOL_SOCKET, SO_ERROR, &failure, &size);
    if (failure == 0)
      give_socket(self, one);
    else
      one.promise.deliver(cannot_connect(std::strerror(failure)));
    return true;
  }
  if (steady_clock::now() < one.until)
    return false;
  one.promise.deliver(cannot_connect("no answer to the connect"));
  return true;
}

/// Ends the dials that are over, without waiting for the others; as long as some are open, looks at
/// them again two milliseconds later.
void look_after_dials(connector_pointer self) {
  constexpr milliseconds look_again{2};
  auto& dials = self->state.dials;
  std::vector<pollfd> waiting;
  for (const auto& each : dials)
    waiting.push_back({each.fd, POLLOUT, 0});
  ::poll(waiting.data(), waiting.size(), 0);
  std::size_t next = 0;
  std::erase_if(dials, [&](connector_state::dial& one) {
    return finish(self, one, waiting[next++].revents != 0);
  });
  PEERCACHE_ASSERT(next == waiting.size()); // Each dial had the news of its own socket.
  if (!dials.empty())
    self->delayed_send(self, look_again, beat_atom_v, from_here{});
}

} // namespace

connector_state::dial::dial(dial&& other) noexcept
    : fd(std::exchange(other.fd, -1)), port(other.port), until(other.until),
      promise(std::move(other.promise)) {}

connector_state::dial::~dial() {
  if (fd >= 0)
    ::close(fd);
}

connector_actor::behavior_type run_connector(connector_pointer self, milliseconds timeout) {
  self->state.timeout = timeout;
  return {
      [self](dial_atom, const std::string& host, std::uint16_t port,
             from_here) -> caf::result<gateway_actor> {
        connector_state::dial started;
        started.port = port;
        started.until = steady_clock::now() + self->state.timeout;
        auto fd = start_connect(host, port);
        if (!fd)
          return cannot_connect(fd.error().message);
        started.fd = *fd;
        started.promise = self->make_response_promise<gateway_actor>();
        auto promise = started.promise;
        self->state.dials.push_back(std::move(started));
        if (self->state.dials.size() == 1)
          self->send(self, beat_atom_v, from_here{});
        return promise;
      },
      [self](beat_atom, from_here) { look_after_dials(self); },
  };
}

} // namespace peercache::link
