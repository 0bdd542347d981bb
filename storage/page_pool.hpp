#pragma once

#include "common/ids.hpp"
#include "common/page_key.hpp"
#include "common/page_status.hpp"
#include "common/result.hpp"
#include "storage/epoch_table.hpp"
#include "storage/eviction_policy.hpp"
#include "storage/extent_allocator.hpp"
#include "storage/host_index.hpp"
#include "storage/page_index.hpp"
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
  /// `evict_ahead` starts below `free_low_bytes` and stops at `free_high_bytes`. 0: 1/128 and 1/64
  /// of the pool.
  std::uint64_t free_low_bytes = 0;
  std::uint64_t free_high_bytes = 0;
  std::uint32_t evict_batch_pages_max = 1024; ///< Victims of one `evict_ahead`.
  epoch_table epochs;                         ///< Says which pages are too old to be taken in.
};

/// One page of a `commit`: its bytes lie in `slot`, which `reserve` gave, and whoever put them
/// there has said so in the slot table (`slot_table::fill`). Checksum 0: its producer has computed
/// none, and the pool does.
struct fill {
  slot_id slot;
  page_key key;
  std::uint32_t length_bytes = 0;
  std::uint64_t checksum = 0;
};

/// A page that was given up: readers of this generation miss from now on, the directory is to be
/// told.
struct evicted {
  page_key key;
  slot_id slot;
  generation gen; ///< The readable generation, as it was published.
  std::uint32_t length_bytes = 0;
  std::uint64_t checksum = 0;
};

/// What became of a fill. `stored`: `slot` and `gen` are its place. `duplicate`: the pool had the
/// page already, at `slot` and `gen`. `refused`: `slot` is not being filled, and nothing changed;
/// or its filler has not said that this page is in it (`slot_table::fill`), and it is free again.
/// `bad_size`: the length is not the reserved one; the slot is free again. `stale`: the page's
/// space was cleared since its set began; the slot is free again.
struct commit_outcome {
  page_status status = page_status::pending;
  slot_id slot;
  generation gen;
  std::uint64_t checksum = 0; ///< The stored page's checksum, never 0; 0 when it is not stored.
  /// Under this key the pool had a page of another length, which gave way.
  std::optional<evicted> replaced;
};

/// A page that can be read.
struct resident_page {
  page_key key;
  slot_id slot;
  generation gen;
  std::uint32_t length_bytes = 0;
  std::uint64_t checksum = 0;
};

struct page_pool_stats {
  // Now.
  std::uint64_t capacity_bytes = 0;
  std::uint64_t free_bytes = 0;
  std::uint64_t used_bytes = 0; ///< Granules in use (readable, filling and limbo), in bytes.
  std::uint64_t page_bytes = 0; ///< Exact lengths of the readable pages.
  std::uint64_t pages = 0;      ///< Readable.
  std::uint64_t filling = 0;
  std::uint64_t limbo = 0; ///< Given up, still pinned by a reader.
  std::uint64_t free_extents = 0;
  std::uint64_t index_bytes = 0;
  // Since the start.
  std::uint64_t stored = 0;
  std::uint64_t adopted = 0; ///< Pages taken over from a process before.
  std::uint64_t duplicates = 0;
  std::uint64_t abandoned = 0;
  std::uint64_t removed = 0;
  std::uint64_t evictions = 0;
  std::uint64_t evicted_bytes = 0;
  std::uint64_t window_evictions = 0; ///< Evictions made for a contiguous range instead of by age.
  std::uint64_t reserves_refused = 0;
  std::uint64_t uses = 0; ///< Reads folded in.
};

/// Which page is in which slot of one pool, and which one goes when room is needed.
///
/// A slot is free → filling → readable → given up → free; given up means limbo while a reader pins
/// it. Nothing here waits: a reserve that finds no hole evicts at once, first a few pages by
/// policy, then, when the free space lies scattered, all readable pages of one aligned address
/// window.
///
/// Threads: one, the owner (the pool actor). No clock, thread or I/O of its own.
/// Ownership: of the policy and all notes; the memory behind `slots` must outlive the pool.
/// Units: bytes at the interface, 4 KiB granules inside.
/// Errors: the world's (no space, a late commit) are values; a wrong transition is an assertion.
/// Invariants: (1) a slot is in exactly one state, and each transition is one method; (2) the index
/// and the policy hold exactly the readable slots, and the host's index none that is free; (3) a
/// slot is reused only when its generation is odd and no pin was seen after that; (4) each page has
/// a checksum.
class page_pool {
public:
  /// @pre the slots' entries are as `pool_memory::create` left them: nothing was ever published; or
  /// as `survey` did, and the next call is `claim`
  /// @param host where the host's processes find pages by themselves; one of no memory: nowhere
  page_pool(slot_table slots, std::unique_ptr<eviction_policy> policy,
            const page_pool_options& options, host_index host = {});

  // --- what a process before has left (page_pool_adoption.cpp)

  /// These extents are in use; nothing is found in them before `adopt`. Those of removed pages are
  /// zeroed (`scrub`), and free then.
  void claim(const pool_remains& remains);
  /// The pages in these claimed slots can be had from here on, as they are; of a key that is here
  /// already, or of a space that was cleared since, the slot is free. Oldest first, as they come
  /// from `remains_check`. Returns which of them were adopted.
  std::vector<resident_page> adopt(std::span<const slot_id> slots);
  /// A claimed slot is free: nobody can write there any more; or its page is none, and its bytes
  /// are zeroed first, which takes calls of `scrub`.
  void give_back(slot_id slot);

  /// Whether the page in this slot can be had again once it is given up.
  using kept_elsewhere = std::function<bool(slot_id)>;

  /// A slot to be filled with a page of this length. Pages that had to go are appended to
  /// `victims`, also when the answer is an error: `invalid_argument` for a length no page may have,
  /// `out_of_memory` when what is pinned and being filled leaves no room. `kept`: among the next
  /// few that would go, those that are kept elsewhere go first.
  result<slot_id> reserve(std::uint32_t length_bytes, std::vector<evicted>& victims,
                          const kept_elsewhere& kept = nullptr);

  /// Publishes one put: `fills` are a prefix chain, head first, and will be evicted tail first.
  /// The newest page of a key counts: one of another length gives way to it.
  /// `promoted`: they came from disk or from another host, and are on probation
  /// (storage/probation.hpp); nothing gives way to them.
  /// @pre outcomes.size() == fills.size()
  void commit(std::span<const fill> fills, std::span<commit_outcome> outcomes,
              bool promoted = false);

  /// A reservation that will not be committed. False, and nothing changed, when `slot` is not being
  /// filled. Only for a filler that cannot write any more: it said so, or its process is gone.
  bool abandon(slot_id slot);

  std::optional<resident_page> find(const page_key& key) const;
  /// Gives the page up; nothing when it is not here. `zeroed` takes calls of `scrub`.
  std::optional<evicted> remove(const page_key& key, bytes_after after = bytes_after::left);
  /// Zeroes so many bytes at most of what is to be zeroed and nobody reads any more. True when
  /// another call has more to do at once.
  bool scrub(std::uint64_t bytes_max);
  /// A read of the filling `gen` that no CPU of this host saw. False, and nothing is counted, when
  /// the slot does not hold that any more, if it ever did.
  bool count_use(slot_id slot, generation gen) noexcept;

  /// A read that did not go through the slot table's counter. False when the key is not here.
  bool touch(const page_key& key);

  /// Asked of each page before it is given up; whoever wants its bytes pins it here.
  using last_look = std::function<void(const resident_page&)>;

  /// Evicts a batch when less than the low watermark is free, or than `free_wanted_bytes`. True
  /// when another call has more to do.
  bool evict_ahead(std::vector<evicted>& victims, const last_look& look = nullptr,
                   std::uint64_t free_wanted_bytes = 0);

  /// Frees what readers have unpinned since it was given up.
  void reclaim();

  /// Turns reads counted in the slot table into touches, for the next `pages_max` slots of a scan
  /// that goes round the pool from the end to the start (a chain's tail before its head).
  void fold_uses(std::uint32_t pages_max);

  /// Calls `visit(const resident_page&)` for each readable page in address order. @pre `visit`
  /// leaves the pool alone
  template <class Visitor>
  void for_each_page(Visitor&& visit) const {
    for (std::uint32_t granule = 0; granule < pages_.size();) {
      auto here = pages_[granule];
      if (here.state == slot_state::readable)
        visit(describe({granule}));
      granule += here.state == slot_state::free ? 1 : here.granules();
    }
  }

  /// Visits the pages piece by piece: from granule `from` on (0: the first), at least `granules`;
  /// returns where to go on, 0 at the end. A page that stays all the while is shown once.
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

  /// No page was ever published under a later generation.
  generation newest() const noexcept { return last_published_; }

  page_pool_stats stats() const;
  std::uint64_t capacity_bytes() const noexcept;

private:
  enum class slot_state : std::uint16_t { free, filling, readable, limbo };

  /// The note of a page's first granule: two bytes for each granule, also where no page starts.
  struct page_note {
    slot_state state : 2;
    std::uint16_t granules_less_one : 14;
    std::uint32_t granules() const noexcept { return granules_less_one + 1u; }
  };
  static_assert(sizeof(page_note) == 2);
  static_assert(limits::granules_per_page_max <= 1u << 14);

  struct window {
    std::uint32_t first = 0;
    generation newest; ///< The generation of the youngest page that would go.
  };

  // Transitions.
  slot_id start_filling(std::uint32_t first, std::uint32_t granules);
  commit_outcome finish_filling(const fill& page);
  void drop_filling(slot_id slot);
  void zero_claimed(slot_id slot);
  void put_in_limbo(slot_id slot);
  /// To free or limbo; returns the free extent, or no_extent.
  std::uint32_t give_up(slot_id slot, bytes_after after = bytes_after::left);
  std::uint32_t release(slot_id slot);

  bool is(slot_id slot, slot_state state) const noexcept;
  resident_page describe(slot_id slot) const;
  /// Why a page that lies in a slot that is being filled is none; nothing when it is one.
  std::optional<page_status> refusal_of(const fill& page) const;
  commit_outcome commit_one(const fill& page, const std::optional<slot_id>& resident,
                            bool replaces);
  std::optional<slot_id> place(std::uint32_t granules, std::vector<evicted>& victims,
                               const kept_elsewhere& kept);
  void put_in_order(slot_id slot, const page_key& key, bool promoted);
  std::optional<slot_id> next_victim();
  std::optional<slot_id> next_victim(const kept_elsewhere& kept);
  void evict(slot_id victim, std::vector<evicted>& victims);

  // Window eviction (page_pool_window.cpp).
  std::uint32_t page_covering(std::uint32_t granule) const;
  std::optional<window> measure(std::uint32_t first, std::uint32_t granules) const;
  std::optional<slot_id> clear(const window& chosen, std::uint32_t granules,
                               std::vector<evicted>& victims);
  std::optional<slot_id> clear_any(std::uint32_t granules, std::vector<evicted>& victims);

  static constexpr std::uint32_t no_extent = UINT32_MAX;

  // Constant after construction.
  slot_table slots_;
  host_index host_;
  page_pool_options options_;
  // The owner's.
  probation order_;
  extent_allocator free_;
  page_index index_;
  std::vector<page_note> pages_;
  std::vector<slot_id> limbo_;
  struct scrubbing {
    slot_id slot;
    std::uint64_t done_bytes = 0;
  };
  std::deque<scrubbing> to_scrub_; ///< Removed slots, in limbo until their bytes are zeroed.
  std::uint64_t limbo_granules_ = 0;
  generation last_published_; ///< The highest of all slots: a later filling has a higher one.
  std::uint32_t fold_cursor_ = 0;
  std::uint32_t window_cursor_ = 0;
  page_pool_stats stats_;
};

} // namespace peercache::storage
