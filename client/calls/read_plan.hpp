#pragma once

#include "client/lookup/location_cache.hpp"
#include "client/lookup/location_choice.hpp"
#include "client/members/promote_plan.hpp"
#include "client/notes/stale_records.hpp"
#include "client/values/pages.hpp"
#include "common/page_key.hpp"
#include "common/page_origin.hpp"
#include "common/page_status.hpp"
#include "directory/page_location.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace peercache::client {

/// The cluster as a reader knows it during one look for its pages.
struct readers_cluster {
  incarnation own;  ///< Process whose pool this process has mapped; zero: there is none.
  incarnation left; ///< This host's node if it has left its cluster: none of its pages is read.
  /// Whether the process that holds the page is in the view.
  std::function<bool(const directory::page_location&)> is_member;
};

/// One `get` without its session, clock and lanes: decides which pages are read where, interprets
/// the answers, and decides which pages are looked for once more.
///
/// The user asks and reads as the plan says, in this order (client/calls/get_call.cpp):
///
///   follow            the newest view
///   take_missing      → looked_at_own_host for each
///   take_remembered   places of earlier calls, in the first look
///   take_cold         remembered pages that are on a disk → `promoted` for each, after looked_up
///   ask_holders       in the second look; the answers go to `told_by_holder`, after looked_up
///   ask_directory     → looked_up for each key, in any order; in between, and afterwards:
///   take_cold         other pages on a disk → `promoted` for each, after looked_up
///   take_round        → may_copy and copied, or was_read; once more after answers of `promoted`
///                     and `told_by_holder`, in any pieces
///   look_again        true: all of it once more, for places that were out of date
///
/// A holder that denies a page for which the directory names it is asked itself in the second look:
/// it may have the page on its disk or in another slot, and knows that before the directory does.
/// A page that this host sets again and again while another host has it is a duplicate each time:
/// its slot is published and then dropped, as soon as the owners have answered. So where this
/// host's copy was dropped while it was read, the second look prefers the other host's.
///
/// Threads: one. No clock, no I/O. Lifetime: the pages, the results and the client's caches outlive
/// the plan. Bound: `looks_max`. Invariants: a page is decided once, and none is `pending` when the
/// last `look_again` is false; nothing is read from a process that is not in the view, nor by a
/// record of another length; a record that the directory is told to forget was named and denied in
/// the second look.
class read_plan {
public:
  /// How often one page is looked for, at most.
  static constexpr int looks_max = 2;

  /// A page that has a place and is not read yet.
  struct page {
    std::uint32_t index = 0; ///< Index of the page in the call.
    directory::page_location location;
  };

  /// Begins a plan in which malformed pages are `bad_size` and all others are missing.
  ///
  /// @pre pages.size() == results.size()
  read_plan(std::span<const get_page> pages, std::span<page_result> results,
            location_cache& locations, stale_records& stale);

  // -- one look: which pages have a place

  /// Sets the view that the look-up uses.
  void follow(readers_cluster known);
  /// Number of pages without a place.
  std::size_t missing() const noexcept { return missing_.size(); }
  std::vector<std::uint32_t> take_missing();
  /// Length of the page with this index in the call.
  std::uint32_t length_of(std::uint32_t index) const noexcept {
    return results_[index].length_bytes;
  }
  /// Takes the page's place in this host's pool, if it has one. @pre the page was taken
  void looked_at_own_host(std::uint32_t index, const std::optional<directory::page_location>& here);
  /// Gives pages the places where they were last read, as long as the holder is in the view.
  /// Returns how many.
  std::size_t take_remembered();
  /// Returns questions to holders that denied a page in the first look. @pre the answer for each
  /// page goes to `told_by_holder`
  promote_plan ask_holders();
  std::vector<page_key> keys_missing() const;
  /// Returns the keys that are missing, and lets them wait for the directory: `looked_up` names
  /// each by its place among these.
  std::vector<page_key> ask_directory();
  /// Takes the directory's answer about one of the keys; a second answer about a key changes
  /// nothing.
  void looked_up(std::size_t nth, const lookup_answer& answer, reader_place& reader);
  /// Bytes of the pages that have a place and that neither `take_cold` nor `take_round` has
  /// returned.
  std::uint64_t located_bytes() const noexcept;

  // -- one look: reads of the pages that have a place

  /// Takes the pages that are on a disk only. @pre the answer for each page goes to `promoted`
  promote_plan take_cold();
  /// Returns the pages to read from memory now. Pages whose place makes no sense are decided
  /// instead.
  std::vector<page> take_round();
  /// Whether the page is copied out of this host's pool rather than read from a peer.
  bool is_own(const page& which) const noexcept;
  /// Call before a page of this host's pool is copied. False: the page is decided. @param late the
  /// deadline has passed
  bool may_copy(const page& which, bool late);
  /// Takes the outcome of a copy. @param status `timed_out`: the deadline passed during the copy
  void copied(const page& which, page_status status);
  /// Takes the outcome of a read. @param used the holder and the generation that the page was read
  /// by
  void was_read(std::uint32_t index, const directory::page_location& used, page_status status,
                page_origin origin);
  /// `promoted` and `told_by_holder` take a node's answer about one page. @param late the deadline
  /// has passed
  void promoted(const promote_plan::place& now, bool late);
  void told_by_holder(const promote_plan::place& now, bool late);

  /// Whether some pages have to be looked for once more; these pages count as missing then.
  bool look_again();

private:
  /// The history of one page in this call; kept only in calls that did more than read each page
  /// once.
  struct past {
    incarnation avoided; ///< The holder whose place was out of date in the first look.
    generation denied;   ///< Generation of the fill that the holder denied; 0: the holder is not
                         ///< asked.
    /// Status of the page if its holder does not have it.
    page_status unless_holder = page_status::pending;
    bool promoted = false; ///< A node brought the page to its place for this call.
    /// Place of the page in this host's pool, found in the second look after the first place there
    /// was out of date; read only if the directory names no other host.
    std::optional<directory::page_location> here_again;
  };

  past& past_of(std::uint32_t index);
  bool may_read_from(const directory::page_location& at) const;
  bool is_last_look() const noexcept { return looks_ == looks_max; }
  /// Stores the location in the cache, unless the page lies in this host's pool, where it is looked
  /// up directly.
  void remember(std::uint32_t index, const directory::page_location& location);
  void locate(std::uint32_t index, const directory::page_location& location);
  void locate_promoted(std::uint32_t index, const directory::page_location& location);
  /// Whether the page can be read at its place; decides the page if not.
  bool can_be_read(const page& which);
  /// Decides the page, or queues it for another look if its place was out of date.
  void decide(std::uint32_t index, const directory::page_location& used, page_status status,
              page_origin origin);
  void end(std::uint32_t index, page_status status, page_origin origin = page_origin::none);

  const std::span<const get_page> pages_;
  const std::span<page_result> results_;
  location_cache& locations_;
  stale_records& stale_;
  readers_cluster known_;
  int looks_ = 1;
  std::vector<std::uint32_t> missing_;
  /// Pages whose keys the directory was asked for in this look, until it has answered.
  std::vector<std::uint32_t> asked_;
  std::size_t unanswered_ = 0; ///< Number of pages in `asked_` without an answer.
  std::vector<page> located_;
  /// Histories of the pages, indexed like the pages; empty as long as no page needs a history.
  std::vector<past> pasts_;
};

} // namespace peercache::client
