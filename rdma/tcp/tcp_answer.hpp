#pragma once

#include "common/trivial_bytes.hpp"
#include "rdma/page_source.hpp"
#include "rdma/tcp/tcp_options.hpp"
#include "rdma/tcp/tcp_protocol.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <sys/uio.h>
#include <vector>

namespace peercache::rdma {

/// State that all sessions of a page server share. Threads: the server's.
struct tcp_server_state {
  tcp_server_state(const tcp_page_server_options& opts, page_source& from)
      : options(opts), source(from), cluster(cluster_digest(opts.cluster)) {}

  const tcp_page_server_options options;
  page_source& source;
  const std::uint64_t cluster;
  std::uint64_t pinned_bytes = 0; ///< Bytes that all sessions together have pinned.
  std::uint64_t payloads = 0;
  std::uint64_t bytes_sent = 0;
};

/// What a session sends next: the answer to a hello, or to a request, whose pages go out straight
/// from their memory.
/// Threads: none. Ownership: pins of the pages, until `advance` has passed their last byte or this
/// object ends.
class tcp_answer {
public:
  explicit tcp_answer(tcp_server_state& shared) : shared_(shared) {}
  ~tcp_answer();
  tcp_answer(const tcp_answer&) = delete;
  tcp_answer& operator=(const tcp_answer&) = delete;

  bool sending() const noexcept { return at_ < pages_.size() || text_sent_ < text_.size(); }

  /// Starts with the answer to a hello. @pre !sending()
  template <class T>
  void begin(const T& message) {
    restart();
    append_bytes(text_, message);
  }
  /// Starts with the answer to a request, and pins the pages that are hits. @pre !sending()
  void begin(const request_header& header, const request_record* records);

  /// Fills `out` with the bytes to send next, together at most `bytes_max`. Returns the number of
  /// pieces. @pre sending()
  std::size_t next(std::span<iovec> out, std::size_t bytes_max) const noexcept;
  /// Moves on by `bytes`, which the socket has taken of those that `next` named.
  void advance(std::size_t bytes) noexcept;

private:
  /// A page of the answer; its slot stays pinned until the last byte is in the socket.
  struct outgoing_page {
    slot_id slot;
    bool pinned = false;
    std::span<const std::byte> bytes;
  };

  void restart() noexcept;
  page_status pin(const request_record& record);
  std::span<const std::byte> damaged(std::span<const std::byte> bytes);
  void release(outgoing_page& page) noexcept;

  tcp_server_state& shared_;
  std::vector<std::byte> text_; ///< The hello's answer, or an answer's header and statuses.
  std::size_t text_sent_ = 0;
  std::vector<outgoing_page> pages_; ///< The hits of the answer.
  std::size_t at_ = 0; ///< Index of the first of `pages_` that is not completely in the socket.
  std::size_t offset_ = 0; ///< Bytes of that page that are in the socket.
  /// Copies of payloads with a flipped byte, for tests only.
  std::vector<std::vector<std::byte>> damaged_;
};

} // namespace peercache::rdma
