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

/// One READ of slot entries: the entry of one page, or the entries of several pages that lie close
/// together.
struct entry_read {
  std::uint64_t remote_address = 0;
  std::uint32_t rkey = 0;
  std::uint32_t bytes = 0;
  std::byte* to = nullptr;
};

/// The READs of the entries of a sub-request's pages, and the judgement of the pages once their
/// entries have arrived. Pages that were written one after the other have entries one after the
/// other: a READ of up to `read_bytes_max` takes many entries, with the bytes that lie between
/// them, because a work request costs the device more than a kilobyte of bytes does. Threads: none.
/// Ownership: borrows the job, the region and the landing from `begin` until the last page is
/// judged.
/// Invariant: an entry that was READ for a page is not overwritten before the page is judged.
class entry_reads {
public:
  /// Most bytes between the starts of two entries that share a READ: as far as the entries of
  /// neighbouring 64 KiB pages.
  static constexpr std::uint32_t distance_max = 16 * sizeof(slot_entry);
  static constexpr std::uint32_t read_bytes_max = 16u << 10;

  entry_reads();

  /// Begins to READ the slot entries of the pages of `sub`; `judge` then says of each page, in the
  /// job's order, whether its bytes count. @pre `landing` has
  /// bounce_memory::block_bytes, or is null where `decide_all` follows without a `next`;
  /// message_bytes >= sizeof(slot_entry)
  void begin(batch_job& job, const sub_request& sub, const remote_region& region,
             std::uint32_t message_bytes, std::byte* landing) noexcept;

  /// Fills in the next READ, which the caller posts as work request number `request`. False when no
  /// entry is left to READ, or when entries have no room to land before some pages are judged.
  /// Pages in chunks that are not registered become `unreachable`.
  bool next(entry_read& read, std::uint64_t request) noexcept;
  /// Decides the pages whose entries have arrived: those READ by work requests up to `retired`.
  void judge(std::uint64_t retired) noexcept;
  /// Gives every page that is still pending this status, without a look at its entry.
  void decide_all(page_status status) noexcept;
  bool all_judged() const noexcept { return judged_ == end_; }

private:
  /// Where the entry of a page lands, and which work request READs it.
  struct place {
    std::uint64_t request = 0; ///< Number of the work request that READs the entry; 0: none does.
    /// Bytes that land before the entry since `begin`, those of skipped entries included.
    std::uint64_t at = 0;
  };
  static constexpr std::uint32_t places = bounce_memory::block_bytes / sizeof(slot_entry);

  page_read& page(std::uint32_t position) noexcept { return job_->page(position); }
  place& place_of(std::uint32_t position) noexcept { return places_[position % places]; }
  std::byte* address(std::uint64_t at) noexcept {
    return landing_ + at % bounce_memory::block_bytes;
  }
  /// How many bytes from `landed_` on one READ may fill now.
  std::uint64_t room() noexcept;
  /// Moves on to the next page whose entry can be READ. False when no page is left, or no place to
  /// note where its entry lands.
  bool settle() noexcept;
  /// The memory that can be READ from the address `entry` on; nothing when the whole entry is not
  /// registered.
  std::optional<remote_region::readable> readable_at(std::uint64_t entry) noexcept;

  batch_job* job_ = nullptr;
  const remote_region* region_ = nullptr;
  std::byte* landing_ = nullptr;
  std::uint64_t bytes_max_ = 0; ///< The length of the longest READ in bytes.
  std::uint32_t end_ = 0;
  /// Position in the job's order of the first page whose entry no READ was given for.
  std::uint32_t asked_ = 0;
  std::uint32_t judged_ = 0;
  std::uint64_t landed_ = 0; ///< Bytes that all READs so far fill; the landing is used as a ring.
  std::vector<place> places_;
};

} // namespace peercache::rdma
