#pragma once

#include "storage/slot_table.hpp"

#include <cstdint>
#include <vector>

namespace peercache::storage {

/// Granules of a pool that a process before has left in use.
struct claimed_extent {
  enum class use : std::uint8_t {
    page,
    being_filled, ///< Somebody may write there yet.
    to_be_zeroed  ///< The page was removed.
  };
  slot_id slot;
  std::uint32_t granules = 0;
  use as = use::page;
};

/// The granules in use of a pool that was taken over, as its entries say.
struct pool_remains {
  std::vector<claimed_extent> extents; ///< Ordered by address; none overlaps another.
  std::uint64_t pages = 0;             ///< Extents that hold a page.
  std::uint64_t impossible = 0;        ///< Entries that can be no page's: taken back.
  generation newest;                   ///< The highest generation of these pages.
};

/// Looks at each entry once. A page is in order as far as its entry tells: its generation is even,
/// its length fits, it has a checksum and begins in no other page. Nothing else is readable
/// afterwards, and nothing is pinned. What was being filled when the owner died is claimed as well,
/// where no page lies: its filler may live and write, but what it has filled is never complete. So
/// is what was removed and not zeroed before the owner died. For the pool's new owner, before it
/// hands a slot out. Threads: the owner's. Cost: 64 bytes a granule are read, 16 MiB a GiB.
pool_remains survey(slot_table slots);

/// Whether the bytes in the slot are those of its entry's checksum. @pre from `survey`
bool is_intact(const slot_table& slots, slot_id slot);

/// The pages of some remains, compared with their checksums piece by piece. Oldest pages come
/// first, so that who inserts them into an eviction order keeps it.
///
/// Threads: one at a time, any; the slots stay as they are until their owner has heard of them.
class remains_check {
public:
  remains_check(slot_table slots, const std::vector<claimed_extent>& extents);

  struct outcome {
    slot_id slot;
    bool intact = false;
  };
  /// The next pages, together about so many bytes and one at least; none when all were compared.
  std::vector<outcome> next(std::uint64_t about_bytes);

private:
  slot_table slots_;
  std::vector<slot_id> pages_;
  std::size_t at_ = 0;
};

} // namespace peercache::storage
