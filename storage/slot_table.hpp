#pragma once

#include "common/guards.hpp"
#include "common/ids.hpp"
#include "common/limits.hpp"
#include "common/page_key.hpp"
#include "common/page_status.hpp"
#include "common/slot_entry.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace peercache::storage {

/// What becomes of the bytes of a page that is given up: they stay until the next page overwrites
/// them, or they are zeroed before anybody has the slot, if need be by the pool's next owner.
enum class bytes_after : bool { left, zeroed };

/// What a slot's entry says about its page.
struct slot_contents {
  page_key key;
  generation gen;
  std::uint64_t checksum = 0;
  std::uint32_t length_bytes = 0;
};

/// The order of stores and loads over a pool's slot entries: a seqlock with pins. A view, cheap to
/// copy; the memory behind it belongs to a `pool_memory`.
///
/// A page's entry is that of its first granule. What makes it safe:
///   - the owner: generation odd, fence, no pins seen; then the bytes may be overwritten;
///   - who fills the slot, in whatever process of the host: the bytes, a fence, key, length and
///     checksum, then `filled`: from here on readers of the host may have the page;
///   - the owner: the generation even, from where on readers anywhere may;
///   - a pinning reader: pin, then the generation is still the record's; the bytes stay until unpin
///     (owner's fence and pin are sequentially consistent: one of the two sides sees the other);
///   - a copying reader: generation, copy, fence, generation again; equal means a good copy.
///
/// Threads: the owner's half belongs to the pool's owner alone, and `fill` to the one thread that
/// fills the slot; the readers' half is safe from any thread of any process that maps the pool,
/// while they write. Errors: a record that does not
/// fit is a `page_status`; a slot from another host is range-checked. Invariants: (1) a slot's
/// generation only grows, but for the bit that says what is to be zeroed, and those that were
/// published do so over the whole pool (`refuse_fill` of one that was not begins anew); (2) each
/// filling has its own odd generation and, when published, the even one after it; (3) key, length
/// and checksum change only while it is odd; (4) what was given up or dropped has another
/// generation than what was filled, so no reader takes it for complete.
class slot_table {
public:
  slot_table() = default;
  /// @pre `pages` holds one granule for each entry
  slot_table(std::span<slot_entry> entries, std::span<std::byte> pages);

  std::uint32_t granules() const noexcept { return granules_; }

  // -- owner

  /// The slot is being filled from here on, and so many granules are whose page it becomes.
  /// @pre not readable; `pins` was zero; 1 <= granules <= limits::granules_per_page_max
  generation begin_fill(slot_id slot, std::uint32_t granules = 1) noexcept;

  /// The page is complete: readers may have it. The copy into the slot ended with a store fence
  /// (`copy_page`) before its end became known here. @pre being filled
  /// The generation is also above `newer_than`: a pool passes its last one, so that the facts about
  /// one key are in order whichever slots it was in. @pre newer_than is even
  generation publish(slot_id slot, const page_key& key, std::uint32_t length_bytes,
                     std::uint64_t checksum, generation newer_than = {}) noexcept;

  /// Readers miss from here on; the bytes may be overwritten once `pins` is zero. With `zeroed` the
  /// entry says in the same moment that they are to be, until `note_zeroed`: whoever dies in
  /// between leaves that to the next owner. @pre readable
  void give_up(slot_id slot, bytes_after after = bytes_after::left) noexcept;

  /// Gives a filling up: it is neither read nor published, and its bytes may be overwritten.
  /// @pre being filled
  void drop(slot_id slot) noexcept;

  /// Zeroes bytes of the slot. @pre given up or dropped, and `pins` is zero
  void zero(slot_id slot, std::uint64_t offset_bytes, std::uint64_t size_bytes) noexcept;
  /// All of them are zero, and nobody has to do it any more: the slot can be filled again.
  void note_zeroed(slot_id slot) noexcept;

  /// Whether the filling that goes on is complete, and of exactly this page.
  bool was_filled(slot_id slot, const page_key& key, std::uint32_t length_bytes,
                  std::uint64_t checksum) const noexcept;

  /// Readers that send from the slot at this moment. Meaningful for reuse after `give_up` only.
  std::uint32_t pins(slot_id slot) const noexcept;

  /// Reads since the last call.
  std::uint32_t take_uses(slot_id slot) noexcept;

  /// The owner's own words, which nobody else changes.
  slot_contents contents(slot_id slot) const noexcept;
  bool has_key(slot_id slot, const page_key& key) const noexcept;

  // --- a new owner, of what a process that is dead has left

  /// Granules of a page that the dead process removed and did not come to zero; 0: there is none.
  std::uint32_t granules_to_zero(slot_id slot) const noexcept;

  /// How many granules it kept for the slot that it had somebody fill; 0: nobody fills it.
  std::uint32_t granules_being_filled(slot_id slot) const noexcept;

  /// The page is never complete, whatever its filler says who lives on: until `end_fill` and the
  /// next `begin_fill`, once the filler is dead. The generation is 0 meanwhile.
  void refuse_fill(slot_id slot) noexcept;
  void end_fill(slot_id slot) noexcept;

  /// Forgets the pins of its readers, who are dead too.
  void clear_pins(slot_id slot) noexcept;

  // -- fillers

  /// The page's bytes are in place, and a store fence stands behind them (`copy_fence`): readers of
  /// this host may have them. Nothing when the slot is not being filled, which takes a fault of
  /// somebody else's; else the filling's generation.
  std::optional<generation> fill(slot_id slot, const page_key& key, std::uint32_t length_bytes,
                                 std::uint64_t checksum) noexcept;

  // -- readers

  /// The complete page in the slot, published or only filled; nothing when there is none.
  std::optional<slot_contents> page_in(slot_id slot) const noexcept;

  /// Whether the slot holds exactly this page now: `hit`, or `stale`, `wrong_key`, `bad_size` as
  /// the reason why not. The generation may be an odd one, of a filling that is complete. A copy
  /// that starts after a `hit` is good only if `still_readable` afterwards.
  page_status check(slot_id slot, generation gen, const page_key& key,
                    std::uint32_t length_bytes) const noexcept;

  /// Whether everything that this thread read from the slot since `check` was the page of `gen`. A
  /// filling that was published meanwhile is the same page.
  bool still_readable(slot_id slot, generation gen) const noexcept;

  /// Checks as `check` does, for published pages only; on `hit` the slot is pinned: its bytes stay
  /// until `unpin`. Otherwise nothing is pinned.
  page_status pin_if(slot_id slot, generation gen, const page_key& key,
                     std::uint32_t length_bytes) noexcept;
  void unpin(slot_id slot) noexcept;

  /// Tells the owner's eviction order of one read.
  void count_use(slot_id slot) noexcept;

  /// @pre `in_range`: true after `check` or `pin_if` answered `hit`
  std::span<std::byte> bytes(slot_id slot, std::uint32_t length_bytes) const noexcept;

  /// Whether a page of this length at this slot would lie within the pool.
  bool in_range(slot_id slot, std::uint32_t length_bytes) const noexcept;

private:
  static bool is_complete(const slot_entry& entry, std::uint64_t gen) noexcept;
  page_status compare(const slot_entry& entry, generation gen, const page_key& key,
                      std::uint32_t length_bytes) const noexcept;

  slot_entry* entries_ = nullptr;
  std::byte* pages_ = nullptr;
  std::uint32_t granules_ = 0;
};

} // namespace peercache::storage
