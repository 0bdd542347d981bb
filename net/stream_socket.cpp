#include "net/stream_socket.hpp"

#include <algorithm>
#include <cerrno>
#include <sys/socket.h>
#include <utility>

namespace peercache::net {

namespace {

/// The most bytes that one record of TLS gives.
constexpr std::size_t record_bytes_max = 16u << 10;
/// Size of the smallest pages of memory that any machine has.
constexpr std::size_t memory_page_bytes = 4096;

/// Whether the kernel can write to all of this memory; it changes one byte of each page. TLS would
/// write to the memory in this process, which a signal ends if it may not be written to. @pre count
/// > 0
bool is_writable(int socket, std::byte* bytes, std::size_t count) noexcept {
  const auto takes_a_byte = [socket](std::byte* at) {
    socklen_t one = 1;
    return ::getsockopt(socket, SOL_SOCKET, SO_TYPE, at, &one) == 0;
  };
  for (std::size_t at = 0; at < count; at += memory_page_bytes)
    if (!takes_a_byte(bytes + at))
      return false;
  return takes_a_byte(bytes + count - 1);
}

/// Moves the pieces one after the other by `move_some`, until it cannot go on. Returns the number
/// of moved bytes, or what `move_some` returned if none were moved; a failure after some bytes is
/// returned by the next call.
template <class Move>
ssize_t move_all(std::span<const iovec> pieces, Move&& move_some) {
  std::size_t moved = 0;
  for (const auto& piece : pieces)
    for (std::size_t done = 0; done < piece.iov_len;) {
      const auto now =
          move_some(static_cast<std::byte*>(piece.iov_base) + done, piece.iov_len - done);
      if (now <= 0)
        return moved > 0 ? static_cast<ssize_t>(moved) : now;
      done += static_cast<std::size_t>(now);
      moved += static_cast<std::size_t>(now);
    }
  return static_cast<ssize_t>(moved);
}

} // namespace

stream_socket stream_socket::dialled(unique_fd fd, std::shared_ptr<tls_context> wanted) noexcept {
  stream_socket made(std::move(fd));
  made.wanted_ = std::move(wanted);
  return made;
}

stream_socket::step stream_socket::establish() noexcept {
  if (!tls_) {
    if (const int fault = socket_error(fd_.get()); fault != 0) {
      errno = fault;
      return step::refused;
    }
    if (!wanted_)
      return step::established;
    tls_.emplace(std::exchange(wanted_, nullptr)->dialled(fd_.get()));
  }
  return tls_->shake_hands();
}

void stream_socket::finish() noexcept {
  if (tls_)
    tls_->finish();
  ::shutdown(fd_.get(), SHUT_WR);
}

void stream_socket::close() noexcept {
  tls_.reset();
  fd_.reset();
}

ssize_t stream_socket::send(const void* bytes, std::size_t count) noexcept {
  return tls_ ? tls_->send(bytes, count)
              : ::send(fd_.get(), bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
}

ssize_t stream_socket::send(std::span<const iovec> pieces) noexcept {
  if (!tls_)
    return send_past_tls(pieces);
  return move_all(pieces, [this](const std::byte* bytes, std::size_t count) {
    return tls_->send(bytes, count);
  });
}

ssize_t stream_socket::receive(void* bytes, std::size_t count) noexcept {
  return tls_ ? tls_->receive(bytes, count) : ::recv(fd_.get(), bytes, count, MSG_DONTWAIT);
}

ssize_t stream_socket::receive(std::span<const iovec> pieces) noexcept {
  if (!tls_)
    return receive_past_tls(pieces);
  return move_all(pieces, [this](std::byte* bytes, std::size_t count) -> ssize_t {
    count = std::min(count, record_bytes_max);
    if (!is_writable(fd_.get(), bytes, count)) {
      errno = EFAULT;
      return -1;
    }
    return tls_->receive(bytes, count);
  });
}

ssize_t stream_socket::send_past_tls(std::span<const iovec> pieces) noexcept {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces.data());
  message.msg_iovlen = pieces.size();
  return ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

ssize_t stream_socket::receive_past_tls(std::span<const iovec> pieces) noexcept {
  return ::readv(fd_.get(), pieces.data(), static_cast<int>(pieces.size()));
}

} // namespace peercache::net
