#pragma once

#include "net/socket.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

namespace peercache::rdma {

/// A client of a server that runs in the same thread; sends and receives raw bytes, whatever the
/// protocol says.
class raw_peer {
public:
  explicit raw_peer(std::uint16_t port) {
    auto made = net::start_connect("127.0.0.1", port, {});
    EXPECT_TRUE(made);
    fd = std::move(*made);
    pollfd ready{fd.get(), POLLOUT, 0};
    ::poll(&ready, 1, 1000);
  }
  explicit raw_peer(net::unique_fd connected) : fd(std::move(connected)) {}

  void send(std::span<const std::byte> bytes) {
    ::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }

  template <class T>
  void say(const T& message) {
    send(std::as_bytes(std::span(&message, 1)));
  }

  /// Drops the bytes that have arrived, and returns their number; sets `closed` at the end of the
  /// stream.
  std::size_t receive() {
    take();
    const auto bytes = arrived_.size();
    arrived_.clear();
    return bytes;
  }

  /// Returns the next message; nothing until all its bytes have arrived.
  template <class T>
  std::optional<T> hear() {
    take();
    if (arrived_.size() < sizeof(T))
      return std::nullopt;
    T message;
    std::memcpy(static_cast<void*>(&message), arrived_.data(), sizeof message);
    arrived_.erase(arrived_.begin(), arrived_.begin() + sizeof message);
    return message;
  }

  net::unique_fd fd;
  bool closed = false;

private:
  void take() {
    std::byte buffer[65536];
    for (;;) {
      const auto got = ::recv(fd.get(), buffer, sizeof buffer, MSG_DONTWAIT);
      if (got < 0 && errno == EAGAIN)
        return;
      closed |= got <= 0;
      if (got <= 0)
        return;
      arrived_.insert(arrived_.end(), buffer, buffer + got);
    }
  }

  std::vector<std::byte> arrived_;
};

template <class T>
void append(std::vector<std::byte>& to, const T& value) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  to.insert(to.end(), bytes, bytes + sizeof value);
}

} // namespace peercache::rdma
