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

/// Owns one file descriptor and closes it.
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
  /// Hands the descriptor over to the caller, who closes it.
  int release() noexcept { return std::exchange(fd_, -1); }

private:
  int fd_ = -1;
};

struct socket_options {
  /// Sizes of the kernel's buffers; 0 leaves a size to the kernel's autotuning, which finds the
  /// path's bandwidth-delay product.
  std::uint32_t send_buffer_bytes = 0;
  std::uint32_t receive_buffer_bytes = 0;
  /// How long sent bytes may stay unacknowledged before the kernel gives the connection up.
  std::chrono::milliseconds user_timeout{2000};
};

/// Makes a non-blocking socket that listens. `port` 0 lets the kernel choose. Takes numeric
/// addresses only.
result<unique_fd> listen_on(const std::string& host, std::uint16_t port, int backlog);

/// Holds a port without listening on it: a connect is refused, and nobody else can listen there,
/// except in the moment between the end of this descriptor and `listen_on`. Takes numeric addresses
/// only.
result<unique_fd> hold_port(const std::string& host, std::uint16_t port);

/// Starts to connect a non-blocking socket. Takes numeric addresses only: name look-ups block, so
/// they are made where the address is configured (`resolve_host`), never on the data plane's
/// thread.
result<unique_fd> start_connect(const std::string& host, std::uint16_t port,
                                const socket_options& opts);

/// Whether `host` is an address in numbers, for which no resolver is asked.
bool is_numeric(const std::string& host);
/// The numeric address of a host's name. Blocks in the resolver: not for the data plane's thread.
result<std::string> resolve_host(const std::string& name);

/// Accepts a connection that waits at the listener, as a non-blocking socket; an invalid descriptor
/// when none waits.
unique_fd accept_from(const unique_fd& listener, const socket_options& opts);

std::uint16_t local_port(const unique_fd& socket);

/// The address of the other end, in bytes that compare, without its port; empty when there is none.
std::string peer_address(int fd);
/// The numeric address of the other side of a TCP connection as text, for logs.
std::string peer_host(int fd);

/// Makes the kernel probe a silent peer's host after each `quiet`; the connection to a host that
/// does not answer ends within about twice that time.
void keep_alive(int fd, std::chrono::seconds quiet) noexcept;

/// Takes the outcome of a non-blocking connect from the socket: 0 or an errno.
int socket_error(int fd) noexcept;

/// Ends both directions of a connection at once, and drops what was not sent yet. The descriptor
/// stays open: its owner closes it.
void cut_off(int fd) noexcept;

/// Lets the close of this connection send a reset, which does not wait until the other side has
/// acknowledged what was sent before; what it has not got by then is dropped.
void reset_when_closed(int fd) noexcept;

/// Waits for edge-triggered readiness of many sockets, and for a wake-up from other threads.
/// Threads: `wake` any, all else the owner.
class event_poll {
public:
  static constexpr std::uint64_t wake_id = ~std::uint64_t{0};

  /// Makes an event poll. Fails only when the process may open no further descriptors.
  static result<event_poll> create();

  /// Reports events of `fd` under `id` until `fd` is closed. False when the kernel refuses. @pre id
  /// != wake_id
  bool add(int fd, std::uint64_t id) noexcept;
  /// Does as `add`, but reports only that there is something to read.
  bool add_reader(int fd, std::uint64_t id) noexcept;
  /// Stops reporting a socket that lives on elsewhere. Events that were collected before may still
  /// name its id.
  void remove(int fd) noexcept;

  /// Takes the pending events; waits for the first one at most `at_most` (rounded up to a
  /// millisecond; 0 does not wait). The span is valid until the next call.
  std::span<const epoll_event> collect(std::chrono::nanoseconds at_most) noexcept;

  void wake() const noexcept;

  /// Readable when `collect` has something to take: another event poll can wait for it.
  int descriptor() const noexcept { return epoll_.get(); }

private:
  bool add(int fd, std::uint64_t id, std::uint32_t events) noexcept;

  unique_fd epoll_;
  unique_fd wake_;
  std::array<epoll_event, 128> events_;
};

} // namespace peercache::net
