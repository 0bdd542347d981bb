#include "net/datagram_socket.hpp"

#include "common/assert.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace peercache::net {
namespace {

/// Room for datagrams that wait in the kernel: some hundred answers of other hosts. The kernel
/// gives as much as its limit (net.core.rmem_max) allows.
constexpr int datagram_room_bytes = 1 << 20;

} // namespace

static_assert(sizeof(sockaddr_in6) == 28 && sizeof(sockaddr_in) <= 28);

result<datagram_address> datagram_address::of(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (code != 0)
    return {errc::invalid_argument, "address '" + host + "': " + ::gai_strerror(code)};
  datagram_address made;
  made.size_ = std::min<std::uint32_t>(found->ai_addrlen, made.bytes_.size());
  std::memcpy(made.bytes_.data(), found->ai_addr, made.size_);
  ::freeaddrinfo(found);
  return made;
}

int datagram_address::family() const noexcept {
  sa_family_t family = AF_UNSPEC;
  if (size_ >= sizeof family)
    std::memcpy(&family, bytes_.data(), sizeof family);
  return family;
}

std::string_view datagram_address::host() const noexcept {
  const auto* bytes = reinterpret_cast<const char*>(bytes_.data());
  switch (family()) {
  case AF_INET:
    return {bytes + offsetof(sockaddr_in, sin_addr), sizeof(in_addr)};
  case AF_INET6:
    return {bytes + offsetof(sockaddr_in6, sin6_addr), sizeof(in6_addr)};
  default:
    return {};
  }
}

/// What the kernel reads and fills in one call.
struct datagram_socket::room {
  std::array<mmsghdr, turn_max> outgoing;
  std::array<iovec, turn_max> outgoing_pieces;
  std::array<mmsghdr, turn_max> incoming; ///< Made once: names `taken` and `bytes`.
  std::array<iovec, turn_max> incoming_pieces;
  std::array<datagram, turn_max> taken;
  std::array<std::array<char, bytes_max + 1>, turn_max> bytes;
};

void datagram_socket::room_deleter::operator()(room* unused) const noexcept {
  delete unused;
}

datagram_socket::datagram_socket(unique_fd socket) : socket_(std::move(socket)), room_(new room) {
  for (std::size_t i = 0; i < turn_max; ++i) {
    room_->incoming_pieces[i] = {room_->bytes[i].data(), room_->bytes[i].size()};
    auto& header = room_->incoming[i].msg_hdr;
    header = {};
    header.msg_name = room_->taken[i].peer.bytes_.data();
    header.msg_namelen = static_cast<socklen_t>(room_->taken[i].peer.bytes_.size());
    header.msg_iov = &room_->incoming_pieces[i];
    header.msg_iovlen = 1;
  }
}

result<unique_fd> datagram_socket::make(int family) {
  unique_fd socket{::socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
  if (!socket)
    return {errc::io_failed, std::string("socket for datagrams: ") + std::strerror(errno)};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &datagram_room_bytes,
               sizeof datagram_room_bytes);
  return socket;
}

result<datagram_socket> datagram_socket::bind(const std::string& host, std::uint16_t port) {
  const auto at = datagram_address::of(host, port);
  if (!at)
    return at.error();
  auto socket = make(at->family());
  if (!socket)
    return socket.error();
  if (::bind(socket->get(), reinterpret_cast<const sockaddr*>(at->bytes_.data()), at->size_) != 0)
    return {errc::io_failed, "bind " + host + ": " + std::strerror(errno)};
  return datagram_socket(std::move(*socket));
}

result<datagram_socket> datagram_socket::open(int family) {
  auto socket = make(family);
  if (!socket)
    return socket.error();
  return datagram_socket(std::move(*socket));
}

void datagram_socket::send(std::span<datagram> all) noexcept {
  for (std::size_t done = 0; done < all.size();) {
    const auto some = all.subspan(done, std::min(all.size() - done, turn_max));
    for (std::size_t i = 0; i < some.size(); ++i) {
      auto& each = some[i];
      room_->outgoing_pieces[i] = {const_cast<char*>(each.bytes.data()), each.bytes.size()};
      auto& header = room_->outgoing[i].msg_hdr;
      header = {};
      header.msg_name = each.peer.bytes_.data();
      header.msg_namelen = each.peer.size_;
      header.msg_iov = &room_->outgoing_pieces[i];
      header.msg_iovlen = 1;
    }
    const auto sent =
        ::sendmmsg(fd(), room_->outgoing.data(), static_cast<unsigned>(some.size()), 0);
    if (sent < 0 && (errno == EAGAIN || errno == ENOBUFS))
      return;
    if (sent < 0 && errno == EINTR)
      continue;
    for (int i = 0; i < sent; ++i)
      some[static_cast<std::size_t>(i)].is_sent = true;
    // When the first one cannot be sent, the others still may.
    done += static_cast<std::size_t>(std::max(sent, 1));
  }
}

std::span<const datagram> datagram_socket::receive() noexcept {
  int count = 0;
  do
    count = ::recvmmsg(fd(), room_->incoming.data(), turn_max, 0, nullptr);
  while (count < 0 && errno == EINTR);
  for (int i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    auto& each = room_->taken[at];
    auto& header = room_->incoming[at];
    each.peer.size_ = header.msg_hdr.msg_namelen;
    each.bytes = {room_->bytes[at].data(), header.msg_len};
    // The kernel has changed of the header what it has filled.
    header.msg_hdr.msg_namelen = static_cast<socklen_t>(each.peer.bytes_.size());
  }
  return std::span(room_->taken).first(static_cast<std::size_t>(std::max(count, 0)));
}

} // namespace peercache::net
