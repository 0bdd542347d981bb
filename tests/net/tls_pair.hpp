#pragma once

#include "common/assert.hpp"
#include "net/socket.hpp"
#include "net/tls_context.hpp"

#include <array>
#include <poll.h>
#include <sys/socket.h>

namespace peercache::net {

/// Two connected sockets with a TLS session on each.
struct tls_pair {
  tls_pair(tls_context& dialling, tls_context& accepting)
      : dials(dialling.dialled(ends[0].get())), accepts(accepting.accepted(ends[1].get())) {}

  /// Shakes hands until both sides are done, or one side refuses the other.
  void shake_hands() {
    using step = tls_session::step;
    for (int round = 0; round < 100; ++round) {
      dialled = dials.shake_hands();
      accepted = accepts.shake_hands();
      if (dialled == step::refused || accepted == step::refused ||
          (dialled == step::established && accepted == step::established))
        return;
    }
  }
  bool established() {
    shake_hands();
    return dials.established() && accepted == tls_session::step::established;
  }

  std::array<unique_fd, 2> ends = make_ends();
  tls_session dials;
  tls_session accepts;
  tls_session::step dialled = tls_session::step::working;
  tls_session::step accepted = tls_session::step::working;

  static std::array<unique_fd, 2> make_ends() {
    std::array<int, 2> made{};
    PEERCACHE_ASSERT(
        ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, made.data()) == 0);
    return {unique_fd(made[0]), unique_fd(made[1])};
  }
};

} // namespace peercache::net
