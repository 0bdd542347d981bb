#pragma once

#include "common/trivial_bytes.hpp"
#include "rdma/page_source.hpp"
#include "rdma/served_spans.hpp"
#include "rdma/tcp/tcp_options.hpp"
#include "rdma/tcp/tcp_pin_room.hpp"
#include "rdma/tcp/tcp_protocol.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <sys/uio.h>
#include <vector>

namespace peercache::rdma {

/// What a page server serves: a pool, or spans of memory under leases; the other pointer is null.
/// Ownership: lent.
struct served_memory {
  page_source* pool = nullptr;
  const served_spans* spans = nullptr;

  data_service service() const noexcept {
    return pool != nullptr ? data_service::pool : data_service::handoff;
  }
};

/// State that all sessions of a page server share. Threads: the server's.
struct tcp_server_state {
  tcp_server_state(const tcp_page_server_options& opts, const served_memory& what)
      : options(opts), serves(what), cluster(cluster_digest(opts.cluster)) {}

  static constexpr std::size_t staging_bytes = 256u << 10;

  const tcp_page_server_options options;
  const served_memory serves;
  /// Host buffer into which bytes of device memory are copied before they are sent; bytes that the
  /// socket does not take are copied again for the next send.
  std::vector<std::byte> staging;
  const std::uint64_t cluster;
  tcp_pin_room pins{options.pinned_bytes_max};
  std::uint64_t payloads = 0;
  std::uint64_t bytes_sent = 0;
};

/// What a session sends next: the answer to a hello, or to a request, whose pages go out straight
/// from their memory. Pages of a pool are pinned. Memory under leases is not: behind the payloads
/// come verdicts, which say for each page whether its lease stood until the payloads were sent.
/// Threads: none. Ownership: pins of the pages, until `advance` has passed their last byte or this
/// object ends. Invariant: a verdict is made when the socket has taken all payloads.
class tcp_answer {
public:
  /// @param peer the host that reads, as `tcp_pin_room` knows it; outlives the answer
  tcp_answer(tcp_server_state& shared, const std::string& peer) : shared_(shared), peer_(peer) {}
  ~tcp_answer();
  tcp_answer(const tcp_answer&) = delete;
  tcp_answer& operator=(const tcp_answer&) = delete;

  /// Bytes of the answer's pages that are still pinned.
  std::uint64_t pinned_bytes() const noexcept { return pinned_bytes_; }
  /// Bytes that are sent next and belong to no page: the header and statuses before the pages, or
  /// the verdicts behind them.
  std::size_t text_left() const noexcept { return text_.size() - text_sent_; }
  bool sending() const noexcept { return at_ < pages_.size() || text_sent_ < text_.size(); }

  /// Begins the answer to a hello. @pre !sending()
  template <class T>
  void begin(const T& message) {
    restart();
    append_bytes(text_, message);
  }
  /// Begins the answer to a request, and pins the pages that are hits.
  /// @pre !sending(); the records are within the limits of the protocol
  void begin(const request_header& header, const request_record* records);

  /// Fills `out` with the bytes to send next, together at most `bytes_max`; they may be read while
  /// `reading` lives. Returns the number of pieces; 0 when the memory is no longer served.
  /// @pre sending(); `reading` is of `serves.spans`, if there are any
  std::size_t next(std::span<iovec> out, std::size_t bytes_max,
                   const served_spans::reading& reading) const noexcept;
  /// Moves on by `bytes`, the number of bytes named by `next` that the socket has taken.
  void advance(std::size_t bytes);

private:
  /// A page of the answer; a page of a pool stays pinned until its last byte is in the socket.
  struct outgoing_page {
    slot_id slot;
    bool pinned = false;
    bool is_copy = false; ///< The page's bytes are a copy in `damaged_`.
    std::uint32_t length_bytes = 0;
    memory_rows from; ///< Where the page's bytes lie in this process.
  };

  void restart() noexcept;
  page_status take(const request_record& record);
  page_status pin(const request_record& record, outgoing_page& page);
  page_status look_at(const request_record& record) const;
  void damage(outgoing_page& page);
  void release(outgoing_page& page) noexcept;
  void make_verdicts();
  bool is_of_device(const outgoing_page& page) const noexcept;
  std::span<const std::byte> staged(const outgoing_page& page, std::size_t offset,
                                    std::size_t bytes_max) const noexcept;

  tcp_server_state& shared_;
  const std::string& peer_;
  std::uint64_t pinned_bytes_ = 0;
  /// The answer to a hello, or header and statuses of the answer to a request; after the payloads
  /// the verdicts.
  std::vector<std::byte> text_;
  std::size_t text_sent_ = 0;
  std::vector<outgoing_page> pages_; ///< The pages of the answer that are hits.
  std::size_t at_ = 0;     ///< Index of the first of `pages_` that is not completely in the socket.
  std::size_t offset_ = 0; ///< Bytes of the page at `at_` that are in the socket.
  /// Records of the pages whose verdicts follow the payloads; empty for a pool.
  std::vector<request_record> judged_later_;
  /// Copies of payloads in which a byte is flipped, for tests only.
  std::vector<std::vector<std::byte>> damaged_;
};

} // namespace peercache::rdma
