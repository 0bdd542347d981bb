#pragma once

#include "common/guards.hpp"
#include "common/ids.hpp"
#include "common/limits.hpp"
#include "common/page_key.hpp"
#include "common/page_status.hpp"
#include "common/slot_entry.hpp"
#include "storage/client_entry.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace peercache::storage {

/// What becomes of the bytes of a page that is given up. `left`: they stay until the next page
/// overwrites them. `zeroed`: they are zeroed before anybody gets the slot, if need be by the
/// pool's next owner.
enum class bytes_after : bool { left, zeroed };

/// What a slot's entry, or until the publication its client entry, says about its page.
struct slot_contents {
  page_key key;
  generation gen;
  std::uint64_t checksum = 0;
  std::uint32_t length_bytes = 0;
};

/// The order of stores and loads over a pool's slot entries: a seqlock with pins. A view, cheap to
/// copy; the memory behind it belongs to a `pool_memory`. Where a process maps the entries
/// read-only, as clients do, it is killed when it calls a function that only the owner may call.
///
/// A page's entry is that of its first granule. What makes it safe:
///   - the owner: generation odd, fence, no pins seen; then the bytes may be overwritten;
///   - who fills the slot, in whatever process of the host: the bytes, a fence, key, length and
///     checksum into the `client_entry`, then `filled`: from here on readers of the host may have
///     the page, which is described there until it is published;
///   - the owner: the generation even; from then on readers on all hosts may have the page;
///   - a pinning reader: pin, then the generation is still the record's; the bytes stay until unpin
///     (owner's fence and pin are sequentially consistent: one of the two sides sees the other);
///   - a copying reader: generation, copy, fence, generation again; equal means a good copy.
///
/// Threads: only the pool's owner may call the owner's half, and only the one thread that fills a
/// slot may call `fill` for it; the readers' half is safe from any thread of any process that maps
/// the pool, while owner and fillers write. Errors: a record that does not fit is a `page_status`;
/// a slot that another host names is range-checked. Invariants: (1) a slot's generation only grows,
/// except for the bit that says that bytes are to be zeroed, and except that `refuse_fill` sets it
/// to 0; published generations grow over the whole pool; (2) each fill has its own odd generation
/// and, when published, a higher even one; (3) key, length and checksum change only while the
/// generation is odd, those of the `client_entry` as well; (4) a slot that was given up or dropped
/// has another generation than its complete fill had, so no reader takes it for complete.
class slot_table {
public:
  slot_table() = default;
  /// @pre `clients` has as many entries as `entries`, and `pages` at least one granule of memory
  /// for each
  slot_table(std::span<slot_entry> entries, std::span<client_entry> clients,
             std::span<std::byte> pages);

  std::uint32_t granules() const noexcept { return granules_; }

  // Functions that only the pool's owner calls.

  /// Starts to fill the slot, whose page will have `granules` granules. Returns the odd generation
  /// of this fill.
  /// @pre the slot is not readable and `pins` was zero; 1 <= granules <=
  /// limits::granules_per_page_max
  generation begin_fill(slot_id slot, std::uint32_t granules = 1) noexcept;

  /// Publishes the page: it is complete, and readers anywhere may have it. The copy into the slot
  /// ended with a store fence (`copy_page`) before the owner heard that it was complete. The new
  /// generation is also above `newer_than`: a pool passes the last one it published, so that the
  /// facts about one key are in order whichever slots it was in.
  /// @pre the slot is being filled; newer_than is even
  generation publish(slot_id slot, const page_key& key, std::uint32_t length_bytes,
                     std::uint64_t checksum, generation newer_than = {}) noexcept;

  /// Gives a page up: readers miss from here on, and the bytes may be overwritten once `pins` is
  /// zero. With `zeroed` the entry says in the same moment that the bytes have to be zeroed, until
  /// `note_zeroed`: an owner that dies before that leaves the zeroing to the next owner. @pre the
  /// slot is readable
  void give_up(slot_id slot, bytes_after after = bytes_after::left) noexcept;

  /// Abandons a fill: the page is neither read nor published, and the slot's bytes may be
  /// overwritten. With `zeroed` a process that takes the pool over finds the slot being filled
  /// until `end_fill`, which is called when the bytes are zeroed.
  /// @pre the slot is being filled
  void drop(slot_id slot, bytes_after after = bytes_after::left) noexcept;

  /// Zeroes a part of the slot's bytes. @pre the page was given up or the fill was abandoned, and
  /// `pins` is zero
  void zero(slot_id slot, std::uint64_t offset_bytes, std::uint64_t size_bytes) noexcept;
  /// Notes that all bytes of the slot are zero, so that it can be filled again.
  void note_zeroed(slot_id slot) noexcept;

  /// Whether the filler has said that the slot's fill is complete, and that it is exactly this
  /// page.
  bool was_filled(slot_id slot, const page_key& key, std::uint32_t length_bytes,
                  std::uint64_t checksum) const noexcept;

  /// The number of readers that have the slot pinned at this moment. Zero allows to overwrite the
  /// slot only after `give_up`: before that, new pins may come.
  std::uint32_t pins(slot_id slot) const noexcept;

  /// The number of reads of the slot's page that `count_use` has counted since the last call.
  std::uint32_t take_uses(slot_id slot) noexcept;

  /// What the entry says of its page: the published page, or else the page that was published last.
  slot_contents contents(slot_id slot) const noexcept;
  bool has_key(slot_id slot, const page_key& key) const noexcept;

  // Functions about slots that a dead process has left, or will leave.

  /// How many granules a page has that the dead process removed and did not finish zeroing; 0:
  /// there is no such page.
  std::uint32_t granules_to_zero(slot_id slot) const noexcept;

  /// How many granules the dead process reserved for the slot for a fill; 0: nobody fills it.
  std::uint32_t granules_being_filled(slot_id slot) const noexcept;

  /// Makes sure that the slot's fill is never complete, whatever a filler that lives on says, until
  /// the next `begin_fill`. Once the filler is dead, `end_fill` ends the fill. The generation is 0
  /// meanwhile.
  void refuse_fill(slot_id slot) noexcept;
  void end_fill(slot_id slot) noexcept;

  /// Sets the number of pins to zero: the readers that pinned the slot are dead.
  void clear_pins(slot_id slot) noexcept;

  // Functions for the process that fills a slot.

  /// Says that the page's bytes are in place and a store fence stands behind them (`copy_fence`):
  /// readers of this host may have the page from here on. Returns the fill's generation; nothing
  /// when the slot is not being filled, which only a fault of another process can cause.
  std::optional<generation> fill(slot_id slot, const page_key& key, std::uint32_t length_bytes,
                                 std::uint64_t checksum) noexcept;

  // Functions for readers.

  /// What the entry says of the complete page in the slot, published or only filled; nothing when
  /// there is none.
  std::optional<slot_contents> page_in(slot_id slot) const noexcept;

  /// Whether the slot holds exactly this page now: `hit`, or the reason why not (`stale`,
  /// `wrong_key`, `bad_size`). `gen` may be the odd generation of a fill that is complete, or was
  /// published since. A copy that starts after a `hit` is good only if `still_readable` is true
  /// after the copy.
  page_status check(slot_id slot, generation gen, const page_key& key,
                    std::uint32_t length_bytes) const noexcept;

  /// Whether everything that this thread has read from the slot since `check` belongs to the page
  /// of `gen`. A fill that was published meanwhile is the same page.
  bool still_readable(slot_id slot, generation gen) const noexcept;

  /// Checks as `check` does, but knows published pages only. On `hit` the slot is pinned: its bytes
  /// stay until `unpin`. Otherwise nothing is pinned.
  page_status pin_if(slot_id slot, generation gen, const page_key& key,
                     std::uint32_t length_bytes) noexcept;
  void unpin(slot_id slot) noexcept;

  /// Counts one read of the page in `slot`, for the owner's eviction order.
  void count_use(slot_id slot) noexcept;

  /// The slot's first `length_bytes` bytes. @pre `in_range`, which is true after `check` or
  /// `pin_if` answered `hit`
  std::span<std::byte> bytes(slot_id slot, std::uint32_t length_bytes) const noexcept;

  /// Bytes for a thread that is about to overwrite them: a fence stands in front, so that whoever
  /// reads what this thread writes finds the generation of the slot's last page gone, though
  /// another thread made it odd.
  std::span<std::byte> bytes_to_fill(slot_id slot, std::uint32_t length_bytes) const noexcept;

  /// Whether a page of this length in this slot would lie within the pool.
  bool in_range(slot_id slot, std::uint32_t length_bytes) const noexcept;

private:
  bool is_complete(slot_id slot, std::uint64_t gen) const noexcept;

  slot_entry* entries_ = nullptr;
  client_entry* clients_ = nullptr;
  std::byte* pages_ = nullptr;
  std::uint32_t granules_ = 0;
};

} // namespace peercache::storage
