#pragma once

#include "rdma/batch_job.hpp"
#include "rdma/verbs/bounce_memory.hpp"
#include "rdma/verbs/destination_memory.hpp"
#include "rdma/verbs/remote_region.hpp"

#include <array>
#include <cstdint>
#include <optional>

namespace peercache::rdma {

/// One RDMA READ for one page: it reads a contiguous piece of a peer's memory into one or several
/// local pieces.
struct payload_read {
  static constexpr std::uint32_t sge_max = 16;

  std::uint64_t remote_address = 0;
  std::uint32_t rkey = 0;
  std::uint32_t bytes = 0;
  std::uint32_t sge_count = 0;
  /// Local pieces of memory that the READ fills; the first `sge_count` are valid.
  std::array<ibv_sge, sge_max> sges;
  /// Destination of the bytes that are READ into a bounce block, which is then the only piece.
  /// Null: the bytes are READ straight to their place.
  std::byte* copy_to = nullptr;
  std::uint32_t block = 0;
};

/// Cuts the pages of a sub-request into READs, in order: at chunk borders of the peer's region, at
/// the longest message, at the most pieces of one work request, and at memory that is not
/// registered, which goes through a bounce block of its own. Rows that are short and close together
/// are READ with the bytes between them, which go to memory that nobody reads; other rows are READ
/// one by one. Threads: none. Ownership: borrows the job, the peer's region and the snapshot of
/// destinations from `begin` until `drop`.
class payload_reads {
public:
  /// Rows whose beginnings are at most this many bytes apart share a READ: a further READ costs the
  /// device more than reading the bytes between them.
  static constexpr std::uint32_t shared_stride_max = 4096;
  static_assert(shared_stride_max <= bounce_memory::discard_bytes);

  enum class outcome : std::uint8_t { read, done, no_block };

  struct limits {
    std::uint32_t message_bytes = 0;
    std::uint32_t sge = 0; ///< Pieces of memory of one READ, at most payload_read::sge_max.
  };

  void begin(batch_job& job, const sub_request& sub, const remote_region& region,
             destination_memory::snapshot destinations, const limits& at_most) noexcept;
  void drop() noexcept;

  /// Fills in the next READ, if there is one. Pages that do not lie in the peer's pool become
  /// `stale`, pages in chunks that are not registered yet `unreachable`, and so do pieces of a
  /// batch that its caller judges when they do not lie in the peer's areas.
  outcome next(payload_read& read, bounce_memory& bounce) noexcept;

private:
  struct cursor {
    std::uint32_t position = 0; ///< The page's place in the job's order.
    std::uint32_t part = 0;
    std::uint32_t part_offset = 0;
    std::uint32_t page_offset = 0;
  };

  /// Where the page's next byte lies at the peer, and what can be READ from there on. Nothing when
  /// that cannot be READ: the page is decided then.
  std::optional<remote_region::readable> locate(std::uint64_t& address) noexcept;
  page_read& page() noexcept { return job_->page(at_.position); }
  const page_part& part() noexcept { return job_->batch->parts[page().first_part + at_.part]; }
  /// Moves on past parts that are used up and pages that are decided. False when no page is left.
  bool settle() noexcept;
  void next_page() noexcept;
  /// Adds pieces of memory to `read` until the page or a limit ends it. False when `read` needs a
  /// bounce block and none is free.
  bool gather(payload_read& read, std::uint32_t at_most, bounce_memory& bounce) noexcept;
  /// Adds the bytes between this row and the next one to `read`, so that the next row follows.
  /// False when the next row needs a READ of its own.
  bool bridge(payload_read& read, std::uint32_t at_most, bounce_memory& bounce) noexcept;
  /// Whether the page's bytes lie apart at the peer.
  bool strided() noexcept { return page().source.rows != 0 && !page().source.contiguous(); }
  bool at_row_begin() noexcept;
  /// Bytes of the row that the cursor is in, from the cursor on.
  std::uint32_t left_of_row() noexcept;
  bool bounce_piece(payload_read& read, std::uint32_t bytes, bounce_memory& bounce) noexcept;
  void advance(std::uint32_t bytes) noexcept;

  batch_job* job_ = nullptr;
  const remote_region* region_ = nullptr;
  destination_memory::snapshot destinations_;
  limits limits_;
  cursor at_;
  std::uint32_t end_ = 0;
};

} // namespace peercache::rdma
