#pragma once

#include "rdma/socket.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

namespace peercache::rdma {

/// A socket that speaks to a server byte by byte; the server runs in the same thread.
class raw_peer {
public:
  explicit raw_peer(std::uint16_t port) {
    auto made = start_connect("127.0.0.1", port, {});
    EXPECT_TRUE(made);
    fd = std::move(*made);
    pollfd ready{fd.get(), POLLOUT, 0};
    ::poll(&ready, 1, 1000);
  }
  explicit raw_peer(unique_fd connected) : fd(std::move(connected)) {}

  void send(std::span<const std::byte> bytes) {
    ::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }

  template <class T>
  void say(const T& message) {
    send(std::as_bytes(std::span(&message, 1)));
  }

  /// Whatever has arrived; sets `closed` at the end of the stream.
  std::size_t receive() {
    std::byte buffer[65536];
    std::size_t sum = 0;
    for (;;) {
      const auto got = ::recv(fd.get(), buffer, sizeof buffer, MSG_DONTWAIT);
      if (got < 0 && errno == EAGAIN)
        return sum;
      if (got <= 0) {
        closed = true;
        return sum;
      }
      sum += static_cast<std::size_t>(got);
    }
  }

  /// The next message when it has arrived whole.
  template <class T>
  std::optional<T> hear() {
    T message;
    const auto got = ::recv(fd.get(), &message, sizeof message, MSG_DONTWAIT | MSG_PEEK);
    if (got < static_cast<ssize_t>(sizeof message))
      return std::nullopt;
    ::recv(fd.get(), &message, sizeof message, MSG_DONTWAIT);
    return message;
  }

  unique_fd fd;
  bool closed = false;
};

template <class T>
void append(std::vector<std::byte>& to, const T& value) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  to.insert(to.end(), bytes, bytes + sizeof value);
}

} // namespace peercache::rdma
