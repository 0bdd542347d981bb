#pragma once

#include "net/socket.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <gtest/gtest.h>
#include <optional>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>

namespace peercache::tests {

/// The socket of a service manager, to which programs tell their state (sd_notify(3)).
/// Threads: one at a time.
class notify_socket {
public:
  /// @param address  '@' and an abstract name, or the path of a file that does not exist.
  explicit notify_socket(std::string address)
      : address_(std::move(address)),
        socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
    sockaddr_un own{};
    own.sun_family = AF_UNIX;
    std::memcpy(own.sun_path, address_.data(), address_.size());
    if (address_[0] == '@')
      own.sun_path[0] = '\0';
    const auto length =
        offsetof(sockaddr_un, sun_path) + address_.size() + (address_[0] == '@' ? 0 : 1);
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&own),
                     static_cast<socklen_t>(length)),
              0)
        << std::strerror(errno);
  }

  const std::string& address() const { return address_; }

  /// The next datagram; nothing when none has come after `at_most`.
  std::optional<std::string> next(std::chrono::milliseconds at_most) {
    pollfd wait{socket_.get(), POLLIN, 0};
    std::array<char, 256> text{};
    if (::poll(&wait, 1, static_cast<int>(at_most.count())) != 1)
      return std::nullopt;
    const auto got = ::recv(socket_.get(), text.data(), text.size(), 0);
    return got < 0 ? std::nullopt
                   : std::optional(std::string(text.data(), static_cast<std::size_t>(got)));
  }

private:
  std::string address_;
  net::unique_fd socket_;
};

} // namespace peercache::tests
