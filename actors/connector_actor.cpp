#include "actors/connector_actor.hpp"

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

namespace peercache::actors {
namespace {

using std::chrono::milliseconds;

result<addrinfo*> resolve(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (auto code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found))
    return {errc::unreachable, "cannot resolve " + host + ": " + gai_strerror(code)};
  return found;
}

/// Whether a connect in progress on `fd` succeeded within `timeout`.
result<void> finish_connect(int fd, milliseconds timeout) {
  pollfd waiting{fd, POLLOUT, 0};
  if (::poll(&waiting, 1, static_cast<int>(timeout.count())) <= 0)
    return {errc::timed_out, "no answer to the connect"};
  int failure = 0;
  socklen_t size = sizeof failure;
  getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &size);
  if (failure != 0)
    return {errc::unreachable, std::strerror(failure)};
  return {};
}

/// A connected, non-blocking socket that the caller owns.
result<int> dial(const std::string& host, std::uint16_t port, milliseconds timeout) {
  auto addresses = resolve(host, port);
  if (!addresses)
    return addresses.error();
  const auto& first = **addresses;
  int fd = ::socket(first.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  int failure = 0;
  if (fd < 0 || (::connect(fd, first.ai_addr, first.ai_addrlen) != 0 && errno != EINPROGRESS))
    failure = errno;
  freeaddrinfo(*addresses);
  auto done = failure != 0 ? result<void>{errc::unreachable, std::strerror(failure)}
                           : finish_connect(fd, timeout);
  if (done)
    return fd;
  if (fd >= 0)
    ::close(fd);
  return done.error();
}

} // namespace

connector_actor::behavior_type
run_connector(connector_actor::stateful_pointer<connector_state> self,
              std::chrono::milliseconds timeout) {
  self->state.timeout = timeout;
  return {
      [self](dial_atom, const std::string& host, std::uint16_t port) -> caf::result<gateway_actor> {
        auto fd = dial(host, port, self->state.timeout);
        if (!fd)
          return caf::make_error(caf::sec::cannot_connect_to_node, fd.error().message);
        auto& mm = self->system().middleman();
        auto basp = mm.named_broker<caf::io::basp_broker>(caf::atom("BASP"));
        auto scribe = mm.backend().new_scribe(*fd);
        auto promise = self->make_response_promise<gateway_actor>();
        // The handshake gets longer than the connect: a loaded peer still answers.
        self->request(basp, self->state.timeout * 4, caf::connect_atom_v, std::move(scribe), port)
            .then(
                [promise](caf::node_id&, caf::strong_actor_ptr& found,
                          std::set<std::string>&) mutable {
                  if (found)
                    promise.deliver(caf::actor_cast<gateway_actor>(found));
                  else
                    promise.deliver(caf::make_error(caf::sec::no_actor_published_at_port));
                },
                [promise](caf::error& err) mutable { promise.deliver(std::move(err)); });
        return promise;
      },
  };
}

} // namespace peercache::actors
