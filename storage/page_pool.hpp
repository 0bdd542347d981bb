#pragma once

#include "common/ids.hpp"
#include "common/page_key.hpp"
#include "common/page_status.hpp"
#include "common/result.hpp"
#include "storage/epoch_table.hpp"
#include "storage/eviction_policy.hpp"
#include "storage/extent_allocator.hpp"
#include "storage/hold_table.hpp"
#include "storage/host_index.hpp"
#include "storage/page_index.hpp"
#include "storage/page_survey.hpp"
#include "storage/pool_remains.hpp"
#include "storage/probation.hpp"
#include "storage/slot_table.hpp"

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace peercache::storage {

struct page_pool_options {
  /// `evict_ahead` starts when less than `free_low_bytes` is free and stops at `free_high_bytes`.
  /// With 0 nothing is evicted before its room is asked for.
  std::uint64_t free_low_bytes = 0;
  std::uint64_t free_high_bytes = 0;
  /// The most pages that one call of `evict_ahead` evicts.
  std::uint32_t evict_batch_pages_max = 1024;
  /// Whether the bytes of every slot are zeroed before it is free, and not only those of removed
  /// pages: also after an eviction, a replacement and an abandoned fill, and of fills that a dead
  /// process has left.
  bool scrub_evicted = false;
  /// The epochs of cleared spaces, by which `commit` and `adopt` refuse pages that are too old.
  epoch_table epochs;
  /// The pages that must not be evicted for now.
  hold_table holds;
};

/// Where the pages of a `commit` come from: a producer has set them, or they are copies of pages on
/// disk or another host.
enum class fill_origin : bool { producer, copy };

/// One page of a `commit`. The page's bytes lie in `slot`, which `reserve` returned, and whoever
/// put them there has said so in the slot table (`slot_table::fill`). Checksum 0: the producer has
/// computed none, and the pool computes it.
struct fill {
  slot_id slot;
  page_key key;
  std::uint32_t length_bytes = 0;
  std::uint64_t checksum = 0;
};

/// A page that was given up. Readers of its generation miss from now on; the caller has to tell the
/// directory.
struct evicted {
  page_key key;
  slot_id slot;
  generation gen; ///< The generation under which the page was published.
  std::uint32_t length_bytes = 0;
  std::uint64_t checksum = 0;
};

/// The result of a fill's commit. `stored`: `slot` and `gen` are the page's place. `duplicate`: the
/// pool has the page already, at `slot` and `gen`. `refused`: `slot` is not being filled, and
/// nothing changed; or its filler has not said that this page is in it (`slot_table::fill`), and
/// the slot is free again. `bad_size`: the length is not the reserved one; the slot is free again.
/// `stale`: the page's space was cleared since its set began; the slot is free again.
struct commit_outcome {
  page_status status = page_status::pending;
  slot_id slot;
  generation gen;
  std::uint64_t checksum = 0; ///< Checksum of the stored page; 0: no page was stored.
  /// The page of another length that the pool had under this key, and that gave way to the stored
  /// one.
  std::optional<evicted> replaced;
};

/// A page of the pool that can be read.
struct resident_page {
  page_key key;
  slot_id slot;
  generation gen;
  std::uint32_t length_bytes = 0;
  std::uint64_t checksum = 0;
};

struct page_pool_stats {
  // Values at the time of the call.
  std::uint64_t capacity_bytes = 0;
  std::uint64_t free_bytes = 0;
  std::uint64_t used_bytes = 0; ///< Granules in use (readable, filling and limbo), in bytes.
  std::uint64_t page_bytes = 0; ///< Exact lengths of the readable pages.
  std::uint64_t pages = 0;      ///< Readable pages.
  std::uint64_t filling = 0;
  /// Pages that were given up and wait for a reader's unpin, or for their bytes to be zeroed.
  std::uint64_t limbo = 0;
  std::uint64_t free_extents = 0;
  std::uint64_t index_bytes = 0;
  // Counts since the pool was made.
  std::uint64_t stored = 0;
  std::uint64_t adopted = 0; ///< Pages taken over from an earlier process.
  std::uint64_t duplicates = 0;
  std::uint64_t abandoned = 0;
  std::uint64_t removed = 0;
  std::uint64_t evictions = 0;
  std::uint64_t evicted_bytes = 0;
  std::uint64_t holds_expired = 0;    ///< Holds that ran out, rather than being released.
  std::uint64_t window_evictions = 0; ///< Evictions made for a contiguous range instead of by age.
  std::uint64_t reserves_refused = 0;
  /// Reads that were taken from the slot table's counters into the eviction order.
  std::uint64_t uses = 0;
};

/// Which page is in which slot of one pool, and which page is evicted when room is needed.
///
/// A slot is free → filling → readable → given up → free; a slot that was given up is in limbo
/// while a reader pins it or while its bytes are to be zeroed, and so is one whose fill was
/// abandoned, with `page_pool_options::scrub_evicted`. Nothing here waits: a reserve that
/// finds no hole evicts at once, first a few pages by policy, then, when the free space lies
/// scattered, all readable pages of one aligned address window.
///
/// A page that is held (storage/hold_table.hpp) is passed over by eviction. Whoever removes or
/// replaces it, clears its space or drains the node takes it all the same.
///
/// Threads: one, the owner (the pool actor). No clock, thread or I/O of its own.
/// Ownership: owns the policy and all notes; the memory behind `slots` must outlive the pool.
/// Units: bytes at the interface, 4 KiB granules inside.
/// Errors: the world's (no space, a late commit) are values; a wrong transition is an assertion.
/// Invariants: (1) a slot is in exactly one state, and each transition is one method; (2) the index
/// and the policy hold exactly the readable slots, and the host's index none that is free; (3) a
/// slot is reused only when its generation is odd and no pin was seen after that; (4) each page has
/// a checksum.
class page_pool {
public:
  /// @pre The slots' entries are as `pool_memory::create` left them: nothing was ever published; or
  /// as `survey` left them, and then the next call is `claim`.
  /// @param host The index through which the host's processes find pages by themselves; without
  /// memory: there is none.
  page_pool(slot_table slots, std::unique_ptr<eviction_policy> policy,
            const page_pool_options& options, host_index host = {});

  // Functions that take over what an earlier process has left (page_pool_adoption.cpp).

  /// Marks the extents in `remains` as in use; no page is found in them before `adopt`. The extents
  /// of removed pages are free after `scrub` has zeroed them.
  void claim(const pool_remains& remains);
  /// Makes the pages in these claimed slots readable, as they are. A page whose key is in the pool
  /// already, or whose space was cleared since, is given back instead. The slots come oldest page
  /// first, as from `remains_check`. Returns the pages that were adopted.
  std::vector<resident_page> adopt(std::span<const slot_id> slots);
  /// Frees a claimed slot: either nobody can still write there, or its page is refused. After a
  /// refused page, and with `page_pool_options::scrub_evicted`, the slot is free only after calls
  /// of `scrub` have zeroed it.
  void give_back(slot_id slot);

  /// Sets the test whether the page in a slot is also kept elsewhere, and so can be had again after
  /// the pool gave it up. Without a test no page counts as kept elsewhere. @pre Nothing was
  /// reserved yet.
  void know_kept(slot_test kept) { kept_ = std::move(kept); }

  /// `only_copies`: among the next few victims, a page that is kept elsewhere goes before pages
  /// that are kept nowhere else. `none`: the order of eviction alone decides.
  enum class spare_mode : bool { none, only_copies };

  /// Reserves a slot for a page of this length. Pages that had to go are appended to `victims`,
  /// also when the answer is an error: `invalid_argument` for a length that no page may have,
  /// `out_of_memory` when pinned pages and slots being filled leave no room. Where bytes have to be
  /// zeroed, a reserve in a full pool zeroes those of each page that it evicts and of each slot in
  /// limbo that its place overlaps, all of them whole.
  result<slot_id> reserve(std::uint32_t length_bytes, std::vector<evicted>& victims,
                          spare_mode spare = spare_mode::none);

  /// Publishes the pages of one put. `fills` are a prefix chain, head first, and will be evicted
  /// tail first. The newest page of a key counts: a page of another length gives way to it.
  /// Copies go on probation (storage/probation.hpp), and no page gives way to them.
  /// @pre outcomes.size() == fills.size()
  void commit(std::span<const fill> fills, std::span<commit_outcome> outcomes, fill_origin from);

  /// Frees a slot whose reservation will not be committed. Only for a filler that can no longer
  /// write: it said so, or its process is gone. False, and nothing changed, when `slot` is not
  /// being filled.
  bool abandon(slot_id slot);

  // Functions for holds (page_pool_holds.cpp).

  /// Tells the time by which holds are judged until the next call, and ends the holds whose time is
  /// over.
  void tell_time(hold_table::time_point now);
  /// Keeps the page in `slot` from eviction for `duration` from the told time on. `gone`: `slot`
  /// does not hold the page of generation `gen`.
  hold_outcome hold(slot_id slot, generation gen, holder_tag who,
                    std::chrono::milliseconds duration);
  /// Ends a hold that only `who` has, if the page is still that of generation `gen`.
  bool release_hold(slot_id slot, generation gen, holder_tag who);
  /// The pages that are held at the told time.
  hold_table::sums held() const { return options_.holds.held(now_); }

  std::optional<resident_page> find(const page_key& key) const;
  /// Gives the page of this key up; nothing when the pool has none. With `zeroed` the slot is free
  /// only after calls of `scrub`.
  std::optional<evicted> remove(const page_key& key, bytes_after after = bytes_after::left);
  /// Zeroes at most `bytes_max` bytes of pages that left the pool, have to be zeroed and that
  /// nobody reads. True when another call has more to do at once.
  bool scrub(std::uint64_t bytes_max);
  /// Bytes that the pool has zeroed since it was made, in calls of `scrub` and of `reserve`.
  std::uint64_t zeroed_bytes() const noexcept { return zeroed_bytes_; }
  /// Counts a read of the page in `slot` that a device made without a CPU of this host. False, and
  /// nothing is counted, when `slot` does not hold the page of generation `gen`.
  bool count_use(slot_id slot, generation gen) noexcept;

  /// Notes a read that the slot table's counter has not counted. False when the pool has no page of
  /// the key.
  bool touch(const page_key& key);

  /// Called with each page before it is given up; whoever wants the page's bytes pins it in this
  /// call.
  using last_look = std::function<void(const resident_page&)>;

  /// Evicts a batch of pages when less than the low watermark, or less than `free_wanted_bytes`, is
  /// free. True when another call has more to do.
  bool evict_ahead(std::vector<evicted>& victims, const last_look& look = nullptr,
                   std::uint64_t free_wanted_bytes = 0);

  /// Frees the slots of given-up pages that readers have unpinned since.
  void reclaim();

  /// Turns reads counted in the slot table into touches, for the next `pages_max` pages of a scan
  /// that goes round the pool from the end to the start, so that a chain's tail is touched before
  /// its head. Tells `survey`, where there is one, each of these pages and the end of each round.
  void fold_uses(std::uint32_t pages_max, page_survey* survey = nullptr);

  /// Calls `visit(const resident_page&)` for each readable page in address order. @pre `visit` does
  /// not change the pool
  template <class Visitor>
  void for_each_page(Visitor&& visit) const {
    for (std::uint32_t granule = 0; granule < pages_.size();) {
      auto here = pages_[granule];
      if (here.state == slot_state::readable)
        visit(describe({granule}));
      granule += here.state == slot_state::free ? 1 : here.granules();
    }
  }

  /// Visits the pages of a part of the pool: those that begin in the `granules` granules from
  /// granule `from` on. Returns the granule for the next call, 0 at the end. A page that stays in
  /// the pool throughout a walk is visited one time.
  template <class Visitor>
  std::uint32_t walk(std::uint32_t from, std::uint32_t granules, Visitor&& visit) const {
    std::uint64_t granule = from;
    const auto end = std::min<std::uint64_t>(pages_.size(), granule + granules);
    while (granule < end) {
      auto here = pages_[granule];
      if (here.state == slot_state::readable)
        visit(describe({static_cast<std::uint32_t>(granule)}));
      granule += here.state == slot_state::free ? 1 : here.granules();
    }
    return granule < pages_.size() ? static_cast<std::uint32_t>(granule) : 0;
  }

  /// The highest generation that was ever given out in this pool.
  generation newest() const noexcept { return newest_; }
  /// Returns a new generation for news of a page that has no slot. The generation is higher than
  /// all that were given out before, and lower than that of every page published from now on.
  generation next_generation() noexcept { return newest_ = {newest_.value + 2}; }

  page_pool_stats stats() const;
  std::uint64_t capacity_bytes() const noexcept;

private:
  enum class slot_state : std::uint16_t { free, filling, readable, limbo };
  /// When the bytes of a slot that has to be zeroed are: in calls of `scrub`, or at once if nobody
  /// reads them, because the caller needs the slot.
  enum class zeroing : bool { later, at_once };
  /// How a page is in the order of eviction (storage/probation.hpp).
  enum class standing : bool { settled, on_probation };

  /// What the pool notes of a page, at its first granule. Every granule has such a note of two
  /// bytes.
  struct page_note {
    slot_state state : 2;
    std::uint16_t granules_less_one : 14;
    std::uint32_t granules() const noexcept { return granules_less_one + 1u; }
  };
  static_assert(sizeof(page_note) == 2);
  static_assert(limits::granules_per_page_max <= 1u << 14);

  struct window {
    std::uint32_t first = 0;
    generation newest; ///< The generation of the youngest page in the window.
  };

  // Functions that move slots between states.
  slot_id start_filling(std::uint32_t first, std::uint32_t granules);
  commit_outcome finish_filling(const fill& page);
  void drop_filling(slot_id slot);
  void zero_claimed(slot_id slot);
  void put_in_limbo(slot_id slot);
  /// Moves a readable slot to free or limbo. Returns the free extent that it is part of; no_extent
  /// when it is in limbo.
  std::uint32_t give_up(slot_id slot, bytes_after after, zeroing when = zeroing::later);
  bytes_after after_eviction() const noexcept {
    return options_.scrub_evicted ? bytes_after::zeroed : bytes_after::left;
  }
  std::uint32_t release(slot_id slot);

  // Functions for slots in limbo (page_pool_zeroing.cpp).
  struct scrubbing {
    slot_id slot;
    std::uint64_t done_bytes = 0;
  };
  std::uint64_t zero_some(scrubbing& of, std::uint64_t bytes_max);
  bool is_zeroed(const scrubbing& of) const;
  std::uint32_t free_zeroed(slot_id slot);
  std::uint32_t zero_and_free(scrubbing of);
  std::uint32_t free_limbo(std::uint64_t first, std::uint64_t end);

  bool is(slot_id slot, slot_state state) const noexcept;
  bool has(slot_id slot, generation gen) const noexcept;
  resident_page describe(slot_id slot) const;
  /// Why the page in a slot that is being filled must not be committed; nothing when it may be.
  std::optional<page_status> refusal_of(const fill& page) const;
  commit_outcome commit_one(const fill& page, const std::optional<slot_id>& resident,
                            bool replaces);
  std::optional<slot_id> place(std::uint32_t granules, std::vector<evicted>& victims,
                               spare_mode spare);
  void put_in_order(slot_id slot, const page_key& key, standing as);
  std::optional<slot_id> next_victim();
  std::optional<slot_id> next_victim_kept_elsewhere();
  void evict(slot_id victim, std::vector<evicted>& victims, zeroing when);

  // Functions for window eviction (page_pool_window.cpp).
  std::uint32_t page_covering(std::uint32_t granule) const;
  std::optional<window> measure(std::uint32_t first, std::uint32_t granules) const;
  std::optional<slot_id> clear(const window& chosen, std::uint32_t granules,
                               std::vector<evicted>& victims);
  std::optional<slot_id> clear_any(std::uint32_t granules, std::vector<evicted>& victims);

  static constexpr std::uint32_t no_extent = UINT32_MAX;

  // Members that are constant after construction.
  slot_table slots_;
  host_index host_;
  page_pool_options options_;
  // Members that only the pool actor's thread uses.
  slot_test kept_; ///< Tells whether the page in a slot is kept elsewhere; empty: no page is.
  probation order_;
  extent_allocator free_;
  page_index index_;
  std::vector<page_note> pages_;
  hold_table::time_point now_; ///< The time of the latest `tell_time`.
  std::vector<slot_id> limbo_;
  /// Slots in limbo until their bytes are zeroed.
  std::deque<scrubbing> to_scrub_;
  std::uint64_t zeroed_bytes_ = 0;
  std::uint64_t limbo_granules_ = 0;
  /// The highest generation published so far; the next page gets a higher one.
  generation newest_;
  std::uint32_t fold_cursor_ = 0;
  std::uint32_t window_cursor_ = 0;
  page_pool_stats stats_;
};

} // namespace peercache::storage
