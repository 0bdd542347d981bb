#pragma once

#include "common/slot_entry.hpp"
#include "rdma/batch_job.hpp"
#include "rdma/verbs/bounce_memory.hpp"
#include "rdma/verbs/remote_region.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace peercache::rdma {

/// One READ of slot entries: that of one page, or those of several that lie close together.
struct entry_read {
  std::uint64_t remote_address = 0;
  std::uint32_t rkey = 0;
  std::uint32_t bytes = 0;
  std::byte* to = nullptr;
};

/// The READs of the entries of a sub-request's pages, and what the entries say once they have
/// arrived. Pages that were written one after the other have entries one after the other: a READ of
/// up to `read_bytes_max` takes many of them, what lies between included, because a request costs
/// the device more than a kilobyte does.
/// Threads: none. Ownership: lends the job, the region and the landing from `begin` until the last
/// page is judged. Invariant: what was READ for a page that is not judged yet is not overwritten.
class entry_reads {
public:
  /// Entries this far apart, from start to start, share a READ: those of neighbouring 64 KiB pages.
  static constexpr std::uint32_t distance_max = 16 * sizeof(slot_entry);
  static constexpr std::uint32_t read_bytes_max = 16u << 10;

  entry_reads();

  /// Pages are judged in the order of the job. @pre `landing` has bounce_memory::block_bytes;
  /// message_bytes >= sizeof(slot_entry)
  void begin(batch_job& job, const sub_request& sub, const remote_region& region,
             std::uint32_t message_bytes, std::byte* landing) noexcept;

  /// The next READ, which is work request number `request`; false when there is none, or no room
  /// before some are judged. Pages in chunks that are not registered become `unreachable`.
  bool next(entry_read& read, std::uint64_t request) noexcept;
  /// Decides the pages whose entries have arrived, that is with requests up to `retired`.
  void judge(std::uint64_t retired) noexcept;
  /// Gives pages that are still pending this status, without a look at any entry.
  void decide_all(page_status status) noexcept;
  bool all_judged() const noexcept { return judged_ == end_; }

private:
  /// Where the entry of a page lands.
  struct place {
    std::uint64_t request = 0; ///< 0: nothing is READ for it.
    std::uint64_t at = 0;      ///< Bytes that had landed before it, skipped ones included.
  };
  static constexpr std::uint32_t places = bounce_memory::block_bytes / sizeof(slot_entry);

  page_read& page(std::uint32_t position) noexcept { return job_->page(position); }
  place& place_of(std::uint32_t position) noexcept { return places_[position % places]; }
  std::byte* address(std::uint64_t at) noexcept {
    return landing_ + at % bounce_memory::block_bytes;
  }
  /// Bytes from `landed_` on that one READ may fill.
  std::uint64_t room() noexcept;
  /// Moves to the next page whose entry can be READ. False at the end, or where there is no room.
  bool settle() noexcept;
  /// The memory that can be READ from a page's entry on; nothing when that is not registered.
  std::optional<remote_region::readable> readable_at(std::uint64_t entry) noexcept;

  batch_job* job_ = nullptr;
  const remote_region* region_ = nullptr;
  std::byte* landing_ = nullptr;
  std::uint64_t bytes_max_ = 0; ///< The longest READ.
  std::uint32_t end_ = 0;
  std::uint32_t asked_ = 0; ///< Pages before this one: their entry's READ was given.
  std::uint32_t judged_ = 0;
  std::uint64_t landed_ = 0; ///< Bytes of the landing ever used; it is used as a ring.
  std::vector<place> places_;
};

} // namespace peercache::rdma
