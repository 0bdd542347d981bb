#pragma once

#include "client/values/pages.hpp"
#include "common/ids.hpp"
#include "common/page_status.hpp"
#include "link/protocol/pool_wire.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::client {

/// One `set` without its session, clock and memory: decides which pages need a slot, which are
/// copied into theirs, what the node is told, and which slots go back.
///
/// The user does as the plan says, in this order (client/calls/set_call.cpp):
///
///   is_here           for each page that this host's pool has already
///   bytes             of the pages that are left: take as many from the set window, or `fail`
///   lease             for each of `without_slot` that a leased slot fits
///   ask               the node for the rest; its answer goes to `take_slots`
///   to_fill           → filled or too_late, for each; once more after `take_slots`
///   ask_again         while it `lacks_space` and there is time; then take_slots, to_fill
///   commit            the message to the node
///   take_unfilled     slots that are given back
///
/// Threads: one. No clock, no I/O. Lifetime: pages and results outlive the plan. Invariants: a slot
/// that the plan was given is either in the commit or among the unfilled ones, once; a page that is
/// `stored` has a slot and is in the commit.
class set_plan {
public:
  /// Begins a plan in which malformed pages are `bad_size` and all others are pending.
  ///
  /// @pre pages.size() == results.size()
  set_plan(std::span<const set_page> pages, std::span<page_result> results);

  /// Notes that the page is readable in this host's pool. True: nothing is stored, and the call
  /// counts as a use of the page; false: the page was decided before.
  bool is_here(std::size_t index);
  /// Returns the bytes of all pending pages.
  std::uint64_t bytes() const noexcept;
  /// Ends all pending pages with this status.
  void fail(page_status reason);

  // -- slots for the pages

  std::vector<std::uint32_t> without_slot() const;
  std::uint32_t length_of(std::uint32_t index) const noexcept {
    return results_[index].length_bytes;
  }
  void lease(std::uint32_t index, slot_id slot);
  /// Returns the packed lengths of the pages that have no slot yet; empty: the node need not be
  /// asked.
  std::string ask();
  /// Whether a page has ended with `no_space`.
  bool lacks_space() const noexcept;
  /// Like `ask`, for the pages that have ended with `no_space`: they are pending again.
  std::string ask_again();
  /// Takes the node's answer. A page without a slot ends with `why_not`, or `no_space` if there is
  /// no reason. @param slots packed, in the order of the question; may be short or empty
  void take_slots(std::string_view slots, page_status why_not);

  // -- copies of the pages into their slots

  /// A pending page and its slot.
  struct page {
    std::uint32_t index = 0;
    slot_id slot;
  };
  std::vector<page> to_fill() const;
  void filled(std::uint32_t index, std::uint64_t checksum);
  /// Notes that there was no time to fill the page's slot.
  void too_late(std::uint32_t index);

  // -- the message to the node, and the slots that go back

  /// Shows a page to this host's readers; false when the node has taken the slot back.
  using make_readable = std::function<bool(const link::filled_slot&)>;
  /// Returns packed `filled_slot`s of the pages that `publish` has shown, in the order of the call.
  std::string commit(const make_readable& publish);
  /// Returns the unfilled slots since the last call, packed.
  std::string take_unfilled();

private:
  std::span<const set_page> pages_;
  std::span<page_result> results_;
  std::vector<slot_id> slots_;           ///< The slot of each page, or `no_slot`.
  std::vector<std::uint64_t> checksums_; ///< The checksum of each page that was filled.
  std::vector<std::uint32_t> asked_;     ///< Pages that the node is asked for slots for.
  std::string unfilled_;                 ///< Packed slot_ids that will not be filled.
};

/// How many slots a client wants to have leased after a set, for pages as large as those of the
/// set.
struct slots_to_lease {
  /// Enough for some batches, so that the next sets need not wait for the acknowledgement of this
  /// one.
  std::uint64_t at_rest;
  std::uint64_t most; ///< A small share of the pool, and some 32 MiB.

  slots_to_lease(std::uint64_t pages_of_set, std::uint64_t bytes_of_slot,
                 std::uint64_t pool_bytes) noexcept;
};

} // namespace peercache::client
