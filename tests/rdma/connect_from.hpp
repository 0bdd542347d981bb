#pragma once

#include "net/socket.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace peercache::rdma {

/// Connects to a port of 127.0.0.1 from another loopback address of this host, as if from another
/// host.
inline net::unique_fd connect_from(const char* address, std::uint16_t port) {
  net::unique_fd fd{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_in own{}, to{};
  own.sin_family = to.sin_family = AF_INET;
  ::inet_pton(AF_INET, address, &own.sin_addr);
  EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&own), sizeof own), 0);
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  return fd;
}

} // namespace peercache::rdma
