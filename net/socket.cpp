#include "net/socket.hpp"

#include "common/assert.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

namespace peercache::net {

namespace {

using address_list = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

result<address_list> look_up(const std::string& host, std::uint16_t port, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (code != 0)
    return {errc::invalid_argument, "address '" + host + "': " + gai_strerror(code)};
  return address_list(found, &freeaddrinfo);
}

struct error last_error(errc code, const std::string& what) {
  return {code, what + ": " + std::strerror(errno)};
}

void set_option(int fd, int level, int name, int value) noexcept {
  // A failure is ignored: socket options only affect speed, and without one the kernel still moves
  // the right bytes.
  setsockopt(fd, level, name, &value, sizeof value);
}

void tune(int fd, const socket_options& opts) noexcept {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(opts.user_timeout.count()));
  if (opts.send_buffer_bytes != 0)
    set_option(fd, SOL_SOCKET, SO_SNDBUF, static_cast<int>(opts.send_buffer_bytes));
  if (opts.receive_buffer_bytes != 0)
    set_option(fd, SOL_SOCKET, SO_RCVBUF, static_cast<int>(opts.receive_buffer_bytes));
}

} // namespace

void unique_fd::reset() noexcept {
  if (fd_ >= 0)
    ::close(std::exchange(fd_, -1));
}

result<unique_fd> hold_port(const std::string& host, std::uint16_t port) {
  auto addresses = look_up(host, port, AI_NUMERICHOST | AI_PASSIVE);
  if (!addresses)
    return addresses.error();
  const auto& at = **addresses;
  const std::string where = "listen on " + host + ":" + std::to_string(port);
  unique_fd fd(::socket(at.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd)
    return last_error(errc::io_failed, where);
  set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (::bind(fd.get(), at.ai_addr, at.ai_addrlen) != 0)
    return last_error(errc::io_failed, where);
  return fd;
}

result<unique_fd> listen_on(const std::string& host, std::uint16_t port, int backlog) {
  auto fd = hold_port(host, port);
  if (fd && ::listen(fd->get(), backlog) != 0)
    return last_error(errc::io_failed, "listen on " + host + ":" + std::to_string(port));
  return fd;
}

result<unique_fd> start_connect(const std::string& host, std::uint16_t port,
                                const socket_options& opts) {
  auto addresses = look_up(host, port, AI_NUMERICHOST);
  if (!addresses)
    return addresses.error();
  const auto& at = **addresses;
  const std::string where = "connect to " + host + ":" + std::to_string(port);
  unique_fd fd(::socket(at.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd)
    return last_error(errc::unreachable, where);
  tune(fd.get(), opts);
  if (::connect(fd.get(), at.ai_addr, at.ai_addrlen) != 0 && errno != EINPROGRESS)
    return last_error(errc::unreachable, where);
  return fd;
}

bool is_numeric(const std::string& host) {
  return static_cast<bool>(look_up(host, 0, AI_NUMERICHOST));
}

result<std::string> resolve_host(const std::string& name) {
  auto addresses = look_up(name, 0, 0);
  if (!addresses)
    return addresses.error();
  std::array<char, NI_MAXHOST> text{};
  const auto& at = **addresses;
  if (getnameinfo(at.ai_addr, at.ai_addrlen, text.data(), text.size(), nullptr, 0,
                  NI_NUMERICHOST) != 0)
    return {errc::invalid_argument, "address '" + name + "' has no numeric form"};
  return std::string(text.data());
}

unique_fd accept_from(const unique_fd& listener, const socket_options& opts) {
  unique_fd fd(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (fd)
    tune(fd.get(), opts);
  return fd;
}

std::string peer_host(int fd) {
  sockaddr_storage at{};
  socklen_t size = sizeof at;
  std::array<char, NI_MAXHOST> text{};
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&at), &size) != 0 ||
      getnameinfo(reinterpret_cast<sockaddr*>(&at), size, text.data(), text.size(), nullptr, 0,
                  NI_NUMERICHOST) != 0)
    return "somebody who is gone";
  return text.data();
}

std::string peer_address(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    return {};
  const auto bytes_of = [](const auto& part) {
    return std::string(reinterpret_cast<const char*>(&part), sizeof part);
  };
  if (address.ss_family == AF_INET)
    return bytes_of(reinterpret_cast<const sockaddr_in&>(address).sin_addr);
  if (address.ss_family == AF_INET6)
    return bytes_of(reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
  return {};
}

std::uint16_t local_port(const unique_fd& socket) {
  sockaddr_storage at{};
  socklen_t size = sizeof at;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&at), &size) != 0)
    return 0;
  return ntohs(at.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(at).sin6_port
                                        : reinterpret_cast<const sockaddr_in&>(at).sin_port);
}

void keep_alive(int fd, std::chrono::seconds quiet) noexcept {
  const auto seconds = static_cast<int>(quiet.count());
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, seconds);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, seconds);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
}

int socket_error(int fd) noexcept {
  int code = 0;
  socklen_t size = sizeof code;
  return ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &size) == 0 ? code : errno;
}

result<event_poll> event_poll::create() {
  event_poll made;
  made.epoll_ = unique_fd(::epoll_create1(EPOLL_CLOEXEC));
  made.wake_ = unique_fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!made.epoll_ || !made.wake_)
    return last_error(errc::io_failed, "epoll");
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = wake_id;
  if (::epoll_ctl(made.epoll_.get(), EPOLL_CTL_ADD, made.wake_.get(), &event) != 0)
    return last_error(errc::io_failed, "epoll");
  return made;
}

bool event_poll::add(int fd, std::uint64_t id) noexcept {
  return add(fd, id, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
}

bool event_poll::add_reader(int fd, std::uint64_t id) noexcept {
  return add(fd, id, EPOLLIN | EPOLLET);
}

bool event_poll::add(int fd, std::uint64_t id, std::uint32_t events) noexcept {
  PEERCACHE_ASSERT(id != wake_id);
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

void event_poll::remove(int fd) noexcept {
  [[maybe_unused]] const bool removed = ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr) == 0;
  PEERCACHE_ASSERT(removed);
}

std::span<const epoll_event> event_poll::collect(std::chrono::nanoseconds at_most) noexcept {
  const auto wait_ms = std::chrono::ceil<std::chrono::milliseconds>(at_most).count();
  const int count = ::epoll_wait(epoll_.get(), events_.data(), static_cast<int>(events_.size()),
                                 static_cast<int>(std::clamp<long>(wait_ms, 0, 60'000)));
  if (count <= 0)
    return {};
  for (int i = 0; i < count; ++i) {
    std::uint64_t ignored;
    if (events_[static_cast<std::size_t>(i)].data.u64 == wake_id &&
        ::read(wake_.get(), &ignored, sizeof ignored) < 0)
      continue;
  }
  return std::span(events_).first(static_cast<std::size_t>(count));
}

void event_poll::wake() const noexcept {
  const std::uint64_t one = 1;
  // The write fails only when the counter is full, and a full counter wakes the sleeper anyway.
  [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof one);
}

void cut_off(int fd) noexcept {
  ::shutdown(fd, SHUT_RDWR);
}

void reset_when_closed(int fd) noexcept {
  const linger at_once{1, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

} // namespace peercache::net
