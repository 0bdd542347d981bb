#pragma once

#include "common/result.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <sys/epoll.h>
#include <utility>

namespace peercache::net {

/// Owns one file descriptor.
class unique_fd {
public:
  unique_fd() = default;
  explicit unique_fd(int fd) noexcept : fd_(fd) {}
  unique_fd(unique_fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  unique_fd& operator=(unique_fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~unique_fd() { reset(); }

  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  void reset() noexcept;

private:
  int fd_ = -1;
};

struct socket_options {
  /// 0 leaves the size to the kernel's autotuning, which finds the path's bandwidth-delay product.
  std::uint32_t send_buffer_bytes = 0;
  std::uint32_t receive_buffer_bytes = 0;
  /// Unacknowledged bytes older than this make the kernel give the connection up.
  std::chrono::milliseconds user_timeout{2000};
};

/// Listens, non-blocking. `port` 0 lets the kernel choose. Only numeric addresses.
result<unique_fd> listen_on(const std::string& host, std::uint16_t port, int backlog);

/// Holds the port without listening: a connect is refused, and nobody else can listen there, but
/// for a moment between the holder's end and `listen_on`. Only numeric addresses.
result<unique_fd> hold_port(const std::string& host, std::uint16_t port);

/// Starts to connect, non-blocking. Only numeric addresses: name look-ups block, so they are made
/// where the address is configured (`resolve_host`), never on the data plane's thread.
result<unique_fd> start_connect(const std::string& host, std::uint16_t port,
                                const socket_options& opts);

/// The numeric address of a name. Blocks in the resolver: not for the data plane's thread.
result<std::string> resolve_host(const std::string& name);

/// Takes a waiting connection, non-blocking; an invalid descriptor when there is none.
unique_fd accept_from(const unique_fd& listener, const socket_options& opts);

std::uint16_t local_port(const unique_fd& socket);

/// Asks a silent peer's host after each `quiet` whether it still lives; the connection of one that
/// does not ends within about twice that time.
void keep_alive(int fd, std::chrono::seconds quiet) noexcept;

/// The outcome of a non-blocking connect: 0 or an errno.
int socket_error(int fd) noexcept;

/// Ends both directions at once, with whatever was not sent yet. Who owns the socket closes it.
void cut_off(int fd) noexcept;

/// Edge-triggered readiness of many sockets, and a wake-up from other threads.
/// Threads: `wake` any, all else the owner.
class event_poll {
public:
  static constexpr std::uint64_t wake_id = ~std::uint64_t{0};

  /// Fails only when the process may have no more descriptors.
  static result<event_poll> create();

  /// Reports events of `fd` as `id` until it is closed. @pre id != wake_id
  bool add(int fd, std::uint64_t id) noexcept;
  /// Removes a socket that lives on elsewhere. Events that were collected before may still name it.
  void remove(int fd) noexcept;

  /// Events, after waiting for the first one at most `at_most` (rounded up to a millisecond; 0 does
  /// not wait).
  std::span<const epoll_event> collect(std::chrono::nanoseconds at_most) noexcept;

  void wake() const noexcept;

private:
  unique_fd epoll_;
  unique_fd wake_;
  std::array<epoll_event, 128> events_;
};

} // namespace peercache::net
