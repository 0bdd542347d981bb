#pragma once

#include "storage/slot_table.hpp"

#include <cstdint>
#include <vector>

namespace peercache::storage {

/// Consecutive granules of a pool that an earlier process has left in use.
struct claimed_extent {
  enum class use : std::uint8_t {
    page,
    being_filled, ///< A client of the dead process may still write to these granules.
    to_be_zeroed  ///< The page that lay here was removed, and its bytes are not all zeroed yet.
  };
  slot_id slot;
  std::uint32_t granules = 0;
  use as = use::page;
};

/// The granules of a pool that are in use when it is taken over, as its entries say.
struct pool_remains {
  /// The extents in use, ordered by address; none overlaps another.
  std::vector<claimed_extent> extents;
  std::uint64_t pages = 0;      ///< How many of the extents hold a page.
  std::uint64_t impossible = 0; ///< Entries that were withdrawn because no page can have them.
  generation newest;            ///< The highest generation of the pages in `extents`.
};

/// Looks at each entry of a pool that was taken over and says what is in use. An entry is taken for
/// a page if its generation is even, its length fits, it has a checksum, and it begins in no other
/// page. No other entry is readable afterwards, and nothing is pinned. Slots that were being filled
/// when the owner died are claimed as well, where no page lies: the filler may live and write, but
/// what it has filled is never complete. Slots of removed pages that were not zeroed before the
/// owner died are claimed as well. The pool's new owner calls this before it hands a slot out.
/// Threads: the owner's. Cost: 64 bytes per granule are read, 16 MiB per GiB; 128 where the
/// generation is odd.
pool_remains survey(slot_table slots);

/// Whether the bytes in the slot match the checksum in its entry. @pre `survey` counted the slot
/// among the pages
bool is_intact(const slot_table& slots, slot_id slot);

/// Compares the pages of a pool that was taken over with their checksums, a part at a time. Oldest
/// pages come first, so that inserting them in this order into an eviction order keeps their order.
///
/// Threads: one at a time, any. The pool's owner leaves the slots as they are until it has heard
/// their outcomes.
class remains_check {
public:
  remains_check(slot_table slots, const std::vector<claimed_extent>& extents);

  struct outcome {
    slot_id slot;
    bool intact = false;
  };
  /// Compares the next pages, at least one, up to about `about_bytes` in total. Returns their
  /// outcomes; none when all pages were compared.
  std::vector<outcome> next(std::uint64_t about_bytes);

private:
  slot_table slots_;
  std::vector<slot_id> pages_;
  std::size_t at_ = 0;
};

} // namespace peercache::storage
