#pragma once

#include "common/checksum.hpp"
#include "rdma/batch_job.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <sys/uio.h>

namespace peercache::rdma {

/// Where the next payload bytes of an answer go: a cursor over the parts of the pages of one
/// sub-request, which digests the bytes as they arrive, while they are still in the cache, and
/// decides each page at its last byte. Threads: none. Ownership: lends the job from `begin` until
/// `done()` or `drop`. Invariant: hands out only memory of parts of pages that are pending.
class page_receiver {
public:
  /// Starts with the pages of `sub` that are still pending: those that the server said are hits.
  void begin(batch_job& job, const sub_request& sub) noexcept;
  void drop() noexcept { job_ = nullptr; }

  bool done() const noexcept { return job_ == nullptr; }

  /// Fills `out` with the next pieces of memory, together at most `bytes_max`. Returns how many.
  /// @pre !done()
  std::size_t next(std::span<iovec> out, std::size_t bytes_max) const noexcept;

  /// `bytes` have been written to what `next` handed out.
  void advance(std::size_t bytes) noexcept;

private:
  /// A byte of a page: the one at `offset` of `part` of the page at `position` of the job's order.
  struct cursor {
    std::uint32_t position = 0;
    std::uint32_t part = 0;
    std::uint32_t offset = 0;
  };

  const page_part& part_at(const cursor& at) const noexcept;
  /// Moves past parts that are used up, and to the next pending page. False at the end.
  bool settle(cursor& at) const noexcept;
  void enter_page() noexcept;
  void leave_page(page_read& page) noexcept;

  batch_job* job_ = nullptr;
  cursor at_;
  std::uint32_t end_ = 0; ///< Position behind the sub-request.
  bool verifying_ = false;
  checksum_stream digest_;
};

} // namespace peercache::rdma
