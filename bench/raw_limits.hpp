#pragma once

#include "common/result.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace peercache::bench {

/// Memory far larger than the caches, every page of it touched. `shared` memory is of the kind that
/// a pool is made of. Ownership: the destructor unmaps; a move passes the memory on. Errors: only
/// `map` has any.
class big_memory {
public:
  enum class kind : std::uint8_t { anonymous, shared };
  static result<big_memory> map(std::size_t bytes, kind what);
  ~big_memory();
  big_memory(big_memory&& other) noexcept;
  big_memory& operator=(big_memory&& other) noexcept;

  std::span<std::byte> bytes() const { return {data_, size_bytes_}; }

private:
  big_memory(std::byte* data, std::size_t size_bytes) : data_(data), size_bytes_(size_bytes) {}
  std::byte* data_ = nullptr;
  std::size_t size_bytes_ = 0;
};

/// The head of a request to the raw server, which measures this machine's loopback with nothing but
/// a socket: a second process answers each request of `request_bytes` with `reply_bytes` out of a
/// buffer far larger than the caches.
///
///   offset  bytes  field (host byte order: both ends are this machine)
///        0      8  reply_bytes
///        8      4  request_bytes   that follow the head and are thrown away
///       12      4  zero
struct raw_request_head {
  std::uint64_t reply_bytes = 0;
  std::uint32_t request_bytes = 0;
  std::uint32_t zero = 0;
};
static_assert(sizeof(raw_request_head) == 16);
inline constexpr std::uint32_t raw_request_bytes_max = 1u << 20;

/// The raw server: listens on 127.0.0.1, prints `port=N` on stdout, and serves one connection after
/// the other until its stdin ends. Returns the process's exit code. Threads: blocks the caller.
int run_raw_server(std::size_t buffer_bytes);

/// The client of the raw server. Threads: one. Errors: results; a broken connection stays broken.
class raw_client {
public:
  static result<raw_client> connect(std::uint16_t port);
  ~raw_client();
  raw_client(raw_client&& other) noexcept;
  raw_client& operator=(raw_client&&) = delete;

  /// Sends a request with `request_bytes` behind its head and receives the reply straight into
  /// `destinations`, one after the other.
  result<void> exchange(std::uint32_t request_bytes,
                        std::span<const std::span<std::byte>> destinations);

  /// Sends the request `depth` times before it reads the first reply.
  result<void> exchange_pipelined(std::uint32_t request_bytes, std::span<std::byte> reply,
                                  std::uint32_t depth);

  /// Sends bytes as they are, to a server of another protocol, and receives as many as `reply` has.
  result<void> exchange_bytes(std::string_view request, std::span<char> reply);

private:
  explicit raw_client(int fd) : fd_(fd) {}
  int fd_ = -1;
  std::vector<std::byte> request_;
};

/// Copies each page with libc's memcpy, one after the other. @pre from.size() == to.size()
void copy_pages_with_libc(std::span<const std::span<std::byte>> from,
                          std::span<const std::span<std::byte>> to) noexcept;

} // namespace peercache::bench
