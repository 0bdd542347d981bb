#include "link/scribe.hpp"

#include "common/guards.hpp"
#include "common/log.hpp"
#include "link/forgetful_broker.hpp"

#include <caf/policy/tcp.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <span>
#include <sys/socket.h>
#include <utility>

namespace peercache::link {

namespace {

namespace network = caf::io::network;

/// Most bytes that a peer may announce as one piece of its greeting.
constexpr std::size_t greeting_bytes_max = 64u << 10;
/// Most bytes that a peer may announce as one piece after its greeting.
constexpr std::size_t piece_bytes_max = 64u << 20;
/// Bytes that a connection keeps for what it has received ahead: enough for most messages.
constexpr std::size_t ahead_bytes = 1024;
constexpr int reads_of_greeting = 2; // The greeting's header, and the rest of the greeting.

} // namespace

network::rw_state connection_bytes::read_some(std::size_t& got, socket fd, void* bytes,
                                              std::size_t count) {
  if (discarded_) {
    got = 0;
    return rw_state::failure;
  }
  if (!tls_)
    return read_ahead(got, fd, bytes, count);
  got = 0;
  const auto done = tls_->receive(bytes, count);
  if (done > 0)
    got = static_cast<std::size_t>(done);
  return done > 0 || (done < 0 && errno == EAGAIN) || count == 0 ? rw_state::success
                                                                 : rw_state::failure;
}

network::rw_state connection_bytes::read_ahead(std::size_t& got, socket fd, void* bytes,
                                               std::size_t count) {
  got = 0;
  if (given_ == ahead_.size()) {
    if (std::exchange(drained_, false))
      return rw_state::success;
    if (count >= ahead_bytes)
      return caf::policy::tcp::read_some(got, fd, bytes, count);
    ahead_.resize(ahead_bytes);
    std::size_t received = 0;
    const auto how = caf::policy::tcp::read_some(received, fd, ahead_.data(), ahead_.size());
    drained_ = received > 0 && received < ahead_.size();
    ahead_.resize(received);
    given_ = 0;
    if (received == 0)
      return how;
  }
  got = std::min(count, ahead_.size() - given_);
  std::memcpy(bytes, ahead_.data() + given_, got);
  given_ += got;
  return rw_state::success;
}

network::rw_state connection_bytes::write_some(std::size_t& done, socket fd, const void* bytes,
                                               std::size_t count) {
  if (!tls_)
    return caf::policy::tcp::write_some(done, fd, bytes, count);
  done = 0;
  if (count == 0) // CAF's word for a write with nothing to write.
    return rw_state::indeterminate;
  while (done < count) {
    const auto sent = tls_->send(static_cast<const char*>(bytes) + done, count - done);
    if (sent < 0)
      return errno == EAGAIN ? rw_state::success : rw_state::failure;
    done += static_cast<std::size_t>(sent);
  }
  return rw_state::success;
}

void connection_bytes::discard() noexcept {
  discarded_ = true;
  ahead_.clear();
  given_ = 0;
}

bool connection_bytes::must_read_more(socket, std::size_t threshold) const noexcept {
  if (discarded_)
    return false;
  return (tls_ ? tls_->buffered_bytes() : ahead_.size() - given_) >= threshold;
}

void refused_messages::add(const std::string& peer, std::string_view why) {
  ++count_;
  if (lines_.allows(peer, std::chrono::steady_clock::now()))
    log::warn("actors: ended a connection from {}, whose message no process of ours sends: {} "
              "(number {} since the start)",
              peer.empty() ? "a process of this host" : peer, why, count_);
}

scribe::scribe(network::default_multiplexer& loop, network::native_socket connected,
               std::optional<net::tls_session> tls, refused_messages& refused)
    : caf::io::scribe(network::conn_hdl_from_socket(connected)), under_tls_(tls.has_value()),
      stream_(loop, connected, std::move(tls)), refused_(refused) {}

void scribe::flush_now() {
  auto& out = stream_.wr_buf();
  if (!under_tls_ && !stream_.sends() && !stream_.tells_of_writes() && !out.empty()) {
    const auto sent = ::send(stream_.fd(), out.data(), out.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0)
      out.erase(out.begin(), out.begin() + sent);
  }
  flush(); // What the socket did not take; CAF finds errors of the socket itself.
}

bool scribe::consume(caf::execution_unit* context, const void* bytes, std::size_t count) {
  // Other brokers have protocols of their own, which they judge themselves.
  auto* basp = dynamic_cast<forgetful_broker*>(parent());
  if (guard_on(guard::frames) && basp != nullptr) {
    const auto why = guard_.refusal_of({static_cast<const char*>(bytes), count});
    if (!why.empty()) {
      refused_.add(addr(), why);
      // Acts as if the peer had hung up. CAF tells the broker, and closes the socket when writes
      // fail as well.
      ::shutdown(stream_.fd(), SHUT_RDWR);
      io_failure(context, network::operation::read);
      return false;
    }
  }
  if (basp != nullptr)
    basp->will_read(hdl(), {static_cast<const char*>(bytes), count});
  return caf::io::scribe::consume(context, bytes, count);
}

void scribe::configure_read(caf::io::receive_policy::config config) {
  const auto most = reads_++ < reads_of_greeting ? greeting_bytes_max : piece_bytes_max;
  if (config.second > most) {
    ::shutdown(stream_.fd(), SHUT_RDWR);
    stream_.discard();
    config.second = 1; // The read of this byte fails, and so ends the connection.
  }
  stream_.configure_read(config);
  if (!std::exchange(launched_, true))
    stream_.start(this);
}

void scribe::graceful_shutdown() {
  flush(); // What a broker has left for the end of its turn.
  stream_.graceful_shutdown();
  detach(&stream_.backend(), false);
}

std::string scribe::addr() const {
  auto known = network::remote_addr_of_fd(stream_.fd());
  return known ? std::move(*known) : "";
}

std::uint16_t scribe::port() const {
  const auto known = network::remote_port_of_fd(stream_.fd());
  return known ? *known : std::uint16_t{0};
}

} // namespace peercache::link
