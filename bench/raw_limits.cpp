#include "bench/raw_limits.hpp"

#include "common/assert.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace peercache::bench {

namespace {

error system_error(const char* what) {
  return {errc::io_failed, std::string(what) + ": " + std::strerror(errno)};
}

bool send_all(int fd, const std::byte* data, std::size_t bytes) {
  while (bytes > 0) {
    auto sent = ::send(fd, data, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR)
      continue;
    if (sent <= 0)
      return false;
    data += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
  return true;
}

bool receive_all(int fd, std::byte* data, std::size_t bytes) {
  while (bytes > 0) {
    auto got = ::recv(fd, data, bytes, 0);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return false;
    data += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

void without_delay(int fd) {
  int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

/// Answers the requests of one connection. Replies come from places of the buffer that move on, so
/// that their bytes are not in the cache when they are sent.
void serve_connection(int fd, std::span<std::byte> buffer) {
  std::vector<std::byte> request(raw_request_bytes_max);
  std::size_t position = 0;
  raw_request_head head;
  while (receive_all(fd, reinterpret_cast<std::byte*>(&head), sizeof head)) {
    if (head.request_bytes > raw_request_bytes_max ||
        !receive_all(fd, request.data(), head.request_bytes))
      return;
    for (auto left = head.reply_bytes; left > 0;) {
      if (position == buffer.size())
        position = 0;
      auto bytes = std::min<std::uint64_t>(left, buffer.size() - position);
      if (!send_all(fd, buffer.data() + position, bytes))
        return;
      position += bytes;
      left -= bytes;
    }
  }
}

/// Waits for the next connection; -1 when stdin ended, since the parent that holds its other end is
/// done then.
int next_connection(int listener) {
  pollfd waits[2] = {{listener, POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
  while (true) {
    if (::poll(waits, 2, -1) < 0 && errno != EINTR)
      return -1;
    if (waits[1].revents != 0)
      return -1;
    if (waits[0].revents != 0)
      return ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  }
}

} // namespace

result<big_memory> big_memory::map(std::size_t bytes, kind what) {
  int flags = MAP_POPULATE | MAP_ANONYMOUS | (what == kind::shared ? MAP_SHARED : MAP_PRIVATE);
  auto* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (memory == MAP_FAILED)
    return system_error("cannot map memory for the measurement; try a smaller --memory");
  // A byte of each page of memory is set to a value other than zero, since the kernel may map pages
  // of zeros to one page of the machine.
  auto* data = static_cast<std::byte*>(memory);
  for (std::size_t i = 0; i < bytes; i += 4096)
    data[i] = std::byte{1};
  return big_memory(data, bytes);
}

big_memory::~big_memory() {
  if (data_ != nullptr)
    ::munmap(data_, size_bytes_);
}

big_memory::big_memory(big_memory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_bytes_(std::exchange(other.size_bytes_, 0)) {
}

big_memory& big_memory::operator=(big_memory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

int run_raw_server(std::size_t buffer_bytes) {
  auto memory = big_memory::map(buffer_bytes, big_memory::kind::shared);
  int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  auto address = loopback(0);
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (!memory || listener < 0 || ::bind(listener, generic, length) != 0 ||
      ::listen(listener, 4) != 0 || ::getsockname(listener, generic, &length) != 0) {
    std::fprintf(stderr, "raw server: cannot listen on 127.0.0.1: %s\n", std::strerror(errno));
    return 1;
  }
  std::printf("port=%u\n", ntohs(address.sin_port));
  std::fflush(stdout);
  for (int fd = next_connection(listener); fd >= 0; fd = next_connection(listener)) {
    without_delay(fd);
    serve_connection(fd, memory->bytes());
    ::close(fd);
  }
  ::close(listener);
  return 0;
}

result<raw_client> raw_client::connect(std::uint16_t port) {
  raw_client client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  auto address = loopback(port);
  if (client.fd_ < 0 ||
      ::connect(client.fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    return system_error("cannot connect to the raw server");
  without_delay(client.fd_);
  return client;
}

raw_client::~raw_client() {
  if (fd_ >= 0)
    ::close(fd_);
}

raw_client::raw_client(raw_client&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), request_(std::move(other.request_)) {}

result<void> raw_client::exchange(std::uint32_t request_bytes,
                                  std::span<const std::span<std::byte>> destinations) {
  raw_request_head head{.request_bytes = request_bytes};
  for (auto destination : destinations)
    head.reply_bytes += destination.size();
  request_.resize(sizeof head + request_bytes);
  std::memcpy(request_.data(), &head, sizeof head);
  if (!send_all(fd_, request_.data(), request_.size()))
    return system_error("raw request");
  for (auto destination : destinations)
    if (!receive_all(fd_, destination.data(), destination.size()))
      return system_error("raw reply");
  return {};
}

result<void> raw_client::exchange_pipelined(std::uint32_t request_bytes, std::span<std::byte> reply,
                                            std::uint32_t depth) {
  raw_request_head head{.reply_bytes = reply.size(), .request_bytes = request_bytes};
  request_.resize(sizeof head + request_bytes);
  std::memcpy(request_.data(), &head, sizeof head);
  for (std::uint32_t i = 0; i < depth; ++i)
    if (!send_all(fd_, request_.data(), request_.size()))
      return system_error("raw request");
  for (std::uint32_t i = 0; i < depth; ++i)
    if (!receive_all(fd_, reply.data(), reply.size()))
      return system_error("raw reply");
  return {};
}

result<void> raw_client::exchange_bytes(std::string_view request, std::span<char> reply) {
  if (!send_all(fd_, reinterpret_cast<const std::byte*>(request.data()), request.size()))
    return system_error("request");
  if (!receive_all(fd_, reinterpret_cast<std::byte*>(reply.data()), reply.size()))
    return system_error("reply");
  return {};
}

void copy_pages_with_libc(std::span<const std::span<std::byte>> from,
                          std::span<const std::span<std::byte>> to) noexcept {
  PEERCACHE_ASSERT(from.size() == to.size());
  for (std::size_t i = 0; i < from.size(); ++i)
    std::memcpy(to[i].data(), from[i].data(), from[i].size());
}

} // namespace peercache::bench
