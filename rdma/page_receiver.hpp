#pragma once

#include "common/checksum.hpp"
#include "rdma/batch_job.hpp"
#include "rdma/device_memory.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <sys/uio.h>
#include <vector>

namespace peercache::rdma {

/// Where the next payload bytes of an answer go: a cursor over the parts of the pages of one
/// sub-request, which digests the bytes as they arrive, while they are still in the cache, and
/// decides each page at its last byte. Bytes for a device's memory are received into host memory
/// first, `staging_bytes` at a time. Threads: none. Ownership: the job is lent from `begin` until
/// `done()` or `drop`. Invariant: hands out only memory of parts of pages that are pending, or
/// `staging_`.
class page_receiver {
public:
  static constexpr std::size_t staging_bytes = 256u << 10;

  /// @param device outlives the receiver; null: all parts are in host memory
  explicit page_receiver(device_memory* device = nullptr) : device_(device) {}

  /// Which verdicts the last byte of a page decides. `misses`: a page whose bytes are right stays
  /// pending, because the server's verdict on it follows.
  enum class decides : std::uint8_t { hits_and_misses, misses };

  /// Begins with the pages of `sub` that are still pending: the server called these pages hits.
  void begin(batch_job& job, const sub_request& sub,
             decides what = decides::hits_and_misses) noexcept;
  void drop() noexcept { job_ = nullptr; }

  bool done() const noexcept { return job_ == nullptr; }

  /// Fills `out` with the memory that the next payload bytes go to, together at most `bytes_max`
  /// bytes. Returns the number of pieces. @pre !done()
  std::size_t next(std::span<iovec> out, std::size_t bytes_max) const noexcept;

  /// Moves the cursor on by `bytes`, which have been written to the memory that `next` named, and
  /// decides the pages that are complete. False: a device's memory could not be written to.
  [[nodiscard]] bool advance(std::size_t bytes) noexcept;

private:
  /// The place of a byte: `offset` in part `part` of the page at `position` in the job's order.
  struct cursor {
    std::uint32_t position = 0;
    std::uint32_t part = 0;
    std::uint32_t offset = 0;
  };

  const page_part& part_at(const cursor& at) const noexcept;
  /// Moves the cursor past parts that are used up, and to the next pending page. False when no page
  /// is left.
  bool settle(cursor& at) const noexcept;
  bool goes_to_device() const noexcept;
  std::size_t bytes_left(std::size_t at_most) const noexcept;
  void enter_page() noexcept;
  bool place(std::byte* to, std::span<const std::byte> received) noexcept;
  void leave_page(page_read& page) noexcept;

  device_memory* const device_;
  batch_job* job_ = nullptr;
  cursor at_;
  bool staged_ = false; ///< The pages of the sub-request are received into `staging_`.
  std::vector<std::byte> staging_;
  std::uint32_t end_ = 0; ///< Position in the job's order behind the last page of the sub-request.
  decides decides_ = decides::hits_and_misses;
  bool verifying_ = false;
  checksum_stream digest_;
};

} // namespace peercache::rdma
