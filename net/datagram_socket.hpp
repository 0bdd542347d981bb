#pragma once

#include "common/result.hpp"
#include "net/socket.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace peercache::net {

/// Address and port of a process that takes datagrams.
class datagram_address {
public:
  datagram_address() = default;
  /// Takes numeric addresses only.
  static result<datagram_address> of(const std::string& host, std::uint16_t port);

  /// AF_INET or AF_INET6; AF_UNSPEC when there is no address.
  int family() const noexcept;
  /// The address without its port, in the bytes of `net::peer_address`; empty when there is none.
  std::string_view host() const noexcept;
  bool operator==(const datagram_address&) const = default;

private:
  friend class datagram_socket;
  std::array<std::byte, 28> bytes_{}; ///< A sockaddr_in or sockaddr_in6.
  std::uint32_t size_ = 0;
};

struct datagram {
  datagram_address peer; ///< Receiver or sender.
  std::string_view bytes;
  bool is_sent = false; ///< Whether `datagram_socket::send` has given the datagram to the kernel.
};

/// A UDP socket that sends and receives many datagrams with one system call. Nothing blocks.
///
/// Threads: one at a time. Errors: a datagram that cannot be sent is not sent, one that is longer
/// than `bytes_max` is cut off by one byte more than that; both are for the protocol above to
/// notice. Bounds: `turn_max` datagrams are received at once.
class datagram_socket {
public:
  /// Longest datagram: fits the usual MTU of 1,500 bytes below IPv6, UDP and the header of a
  /// tunnel.
  static constexpr std::size_t bytes_max = 1400;
  static constexpr std::size_t turn_max = 64;

  /// Opens a socket at this address. Takes numeric addresses only.
  static result<datagram_socket> bind(const std::string& host, std::uint16_t port);
  /// Opens a socket that asks others, at a port that the kernel chooses. @param family AF_INET or
  /// AF_INET6
  static result<datagram_socket> open(int family);

  int fd() const noexcept { return socket_.get(); }
  /// Sends in order, and notes of each datagram whether it was sent. When the kernel has no room,
  /// the rest is not sent.
  void send(std::span<datagram> all) noexcept;
  /// Takes what has arrived; valid until the next call. Less than `turn_max`: nothing more has
  /// arrived.
  std::span<const datagram> receive() noexcept;

private:
  struct room;
  explicit datagram_socket(unique_fd socket);
  static result<unique_fd> make(int family);

  struct room_deleter {
    void operator()(room* unused) const noexcept;
  };
  unique_fd socket_;
  std::unique_ptr<room, room_deleter> room_;
};

} // namespace peercache::net
