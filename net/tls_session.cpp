#include "net/tls_session.hpp"

#include "common/assert.hpp"
#include "net/tls_certificate.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <utility>

namespace peercache::net {

struct tls_session::state {
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl{nullptr, &SSL_free};
  int fd = -1;
  int socket_errno = 0; ///< The socket's last errno when it failed; 0: it did not fail.
  std::string cluster;
  tls_peers wanted = tls_peers::nodes;
  tls_identity peer;
  std::string refusal;
};

namespace {

bool is_wanted(tls_role role, tls_peers wanted) noexcept {
  if (wanted == tls_peers::nodes)
    return role == tls_role::node;
  return wanted != tls_peers::nodes_and_operators || role != tls_role::client;
}

/// Why a member of this role is refused.
std::string words_of(tls_peers wanted, tls_role role) {
  return fmt::format("its certificate is of the role `{}`, and {}", word_of(role),
                     wanted == tls_peers::nodes
                         ? "only nodes have ports"
                         : "the control port takes nodes and operators; "
                           "clients use the Unix socket of their host's node");
}

int clamped(std::size_t count) noexcept {
  return static_cast<int>(std::min<std::size_t>(count, INT_MAX));
}

} // namespace

/// OpenSSL's access to a socket, by functions that raise no signal when the peer is gone.
struct tls_socket {
  static tls_session::state& of(BIO* bio) noexcept {
    return *static_cast<tls_session::state*>(BIO_get_data(bio));
  }

  static int outcome(BIO* bio, ssize_t done, int retry) noexcept {
    BIO_clear_retry_flags(bio);
    if (done >= 0)
      return static_cast<int>(done);
    if (errno == EAGAIN || errno == EINTR || errno == ENOTCONN || errno == EINPROGRESS)
      BIO_set_flags(bio, retry | BIO_FLAGS_SHOULD_RETRY);
    else
      of(bio).socket_errno = errno;
    return -1;
  }
  static int write(BIO* bio, const char* bytes, int count) noexcept {
    const auto size = static_cast<std::size_t>(count);
    return outcome(bio, ::send(of(bio).fd, bytes, size, MSG_NOSIGNAL), BIO_FLAGS_WRITE);
  }
  static int read(BIO* bio, char* bytes, int count) noexcept {
    const auto got = ::recv(of(bio).fd, bytes, static_cast<std::size_t>(count), 0);
    if (got == 0 && count > 0)
      of(bio).socket_errno =
          ECONNRESET; // The socket has ended before the TLS session announced an end.
    return outcome(bio, got, BIO_FLAGS_READ);
  }
  static long control(BIO*, int command, long, void*) noexcept {
    return command == BIO_CTRL_FLUSH ? 1 : 0;
  }

  static ssize_t failed(tls_session::state& whose, int outcome) noexcept;

  static const BIO_METHOD* method() {
    // Never freed: threads may have sessions until the process has ended.
    static const BIO_METHOD* const made = [] {
      auto* one =
          BIO_meth_new(BIO_TYPE_SOURCE_SINK | BIO_get_new_index(), "socket without signals");
      PEERCACHE_ASSERT(one != nullptr);
      BIO_meth_set_write(one, &write);
      BIO_meth_set_read(one, &read);
      BIO_meth_set_ctrl(one, &control);
      return one;
    }();
    return made;
  }

  /// Called by OpenSSL for each certificate of the peer's chain, its own one last.
  static int judge(int fits, X509_STORE_CTX* chain) noexcept {
    auto* ssl =
        static_cast<SSL*>(X509_STORE_CTX_get_ex_data(chain, SSL_get_ex_data_X509_STORE_CTX_idx()));
    auto& whose = *static_cast<tls_session::state*>(SSL_get_app_data(ssl));
    if (fits == 0) {
      whose.refusal = fmt::format("its certificate is not valid here: {}",
                                  X509_verify_cert_error_string(X509_STORE_CTX_get_error(chain)));
      return 0;
    }
    if (X509_STORE_CTX_get_error_depth(chain) != 0)
      return 1;
    auto who = identity_in(*X509_STORE_CTX_get_current_cert(chain), whose.cluster);
    if (who && is_wanted(who->role, whose.wanted)) {
      whose.peer = std::move(*who);
      return 1;
    }
    whose.refusal =
        who ? words_of(whose.wanted, who->role) : "its certificate is of no member of this cluster";
    X509_STORE_CTX_set_error(chain, X509_V_ERR_APPLICATION_VERIFICATION);
    return 0;
  }
};

/// Translates the outcome of a call of OpenSSL that has not succeeded: 0 at the session's end,
/// otherwise -1 with errno.
ssize_t tls_socket::failed(tls_session::state& whose, int outcome) noexcept {
  const int kind = SSL_get_error(whose.ssl.get(), outcome);
  if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE) {
    errno = EAGAIN;
    return -1;
  }
  if (kind == SSL_ERROR_ZERO_RETURN)
    return 0;
  const int socket_errno = std::exchange(whose.socket_errno, 0);
  if (whose.refusal.empty()) {
    const char* reason = ERR_reason_error_string(ERR_peek_last_error());
    whose.refusal = socket_errno != 0   ? std::strerror(socket_errno)
                    : reason != nullptr ? reason
                                        : "the session is broken";
  }
  ERR_clear_error();
  errno = socket_errno != 0 ? socket_errno : EPROTO;
  return -1;
}

tls_session::tls_session(SSL_CTX* context, int fd, side which, std::string cluster,
                         tls_peers wanted)
    : state_(std::make_unique<state>()) {
  auto& own = *state_;
  own.fd = fd;
  own.cluster = std::move(cluster);
  own.wanted = wanted;
  own.ssl.reset(SSL_new(context));
  BIO* socket = BIO_new(tls_socket::method());
  PEERCACHE_ASSERT(own.ssl && socket != nullptr);
  BIO_set_data(socket, &own);
  BIO_set_init(socket, 1);
  SSL_set_bio(own.ssl.get(), socket, socket);
  SSL_set_app_data(own.ssl.get(), &own);
  SSL_set_verify(own.ssl.get(),
                 wanted == tls_peers::anyone ? SSL_VERIFY_PEER
                                             : SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
                 &tls_socket::judge);
  // Engines, which have clients' certificates, accept one another's connections.
  if (which == side::dials && wanted == tls_peers::members)
    SSL_set_purpose(own.ssl.get(), X509_PURPOSE_SSL_CLIENT);
  if (which == side::dials)
    SSL_set_connect_state(own.ssl.get());
  else
    SSL_set_accept_state(own.ssl.get());
}

tls_session::tls_session(tls_session&&) noexcept = default;
tls_session& tls_session::operator=(tls_session&&) noexcept = default;
tls_session::~tls_session() = default;

tls_session::step tls_session::shake_hands() noexcept {
  ERR_clear_error();
  const int outcome = SSL_do_handshake(state_->ssl.get());
  if (outcome == 1)
    return step::established;
  if (tls_socket::failed(*state_, outcome) == 0)
    errno = ECONNRESET;
  return errno == EAGAIN ? step::working : step::refused;
}

bool tls_session::established() const noexcept {
  return SSL_is_init_finished(state_->ssl.get()) != 0;
}

short tls_session::awaited() const noexcept {
  const SSL* ssl = state_->ssl.get();
  return SSL_in_before(ssl) != 0 || SSL_want_write(ssl) ? POLLOUT : POLLIN;
}

ssize_t tls_session::send(const void* bytes, std::size_t count) noexcept {
  if (count == 0)
    return 0;
  ERR_clear_error();
  const int done = SSL_write(state_->ssl.get(), bytes, clamped(count));
  if (done > 0)
    return done;
  const auto outcome = tls_socket::failed(*state_, done);
  if (outcome == 0)
    errno = EPIPE;
  return -1;
}

ssize_t tls_session::receive(void* bytes, std::size_t count) noexcept {
  if (count == 0)
    return 0;
  ERR_clear_error();
  const int got = SSL_read(state_->ssl.get(), bytes, clamped(count));
  return got > 0 ? got : tls_socket::failed(*state_, got);
}

void tls_session::finish() noexcept {
  ERR_clear_error();
  if (established())
    SSL_shutdown(state_->ssl.get());
}

std::size_t tls_session::buffered_bytes() const noexcept {
  return static_cast<std::size_t>(SSL_pending(state_->ssl.get()));
}

const std::string& tls_session::refusal() const noexcept {
  return state_->refusal;
}

const tls_identity& tls_session::peer() const noexcept {
  PEERCACHE_ASSERT(established());
  return state_->peer;
}

} // namespace peercache::net
