#pragma once

#include "client/cache_client.hpp"
#include "client/location_cache.hpp"
#include "client/location_choice.hpp"
#include "client/promote_plan.hpp"
#include "client/stale_records.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace peercache::client {

/// The cluster as a reader knows it while it looks for its pages once.
struct readers_cluster {
  incarnation own;  ///< Whose pool this process has mapped; zero for none.
  incarnation left; ///< The own node when it has left its cluster: nothing of it is read.
  /// Whether a process is in the view.
  std::function<bool(const incarnation&)> is_member;
};

/// One `get` without its session, clock and lanes: which pages are read where, what each answer
/// means for its page, and which pages are looked for once more.
///
/// Its user asks and reads as the plan says, in this order (client/get_call.cpp):
///
///   follow            the newest view
///   take_missing      → looked_at_own_host for each
///   take_remembered   places of earlier calls, in the first look
///   ask_holders       in the second look; the answers come to `told_by_holder`, after the reads
///   keys_missing      → looked_up
///   take_cold         pages on a disk → `promoted` for each, after the reads
///   take_round        → may_copy and copied, or was_read; once more for what was promoted
///   look_again        true: all of it once more, for places that were out of date
///
/// A holder that denies a page for which the directory names it is asked itself in the second look:
/// it may have the page on its disk or in another slot, and knows that before the directory does.
///
/// Threads: one. No clock, no I/O. Lifetime: the pages, results and what the client remembers
/// outlive the plan. Bound: `looks_max`. Invariants: a page is decided once, and none is `pending`
/// when the last `look_again` is false; nothing is read from a process that is not in the view, nor
/// by a record of another length; what the directory is told to forget was named and denied in the
/// second look.
class read_plan {
public:
  /// How often one page is looked for.
  static constexpr int looks_max = 2;

  /// A page that has a place and is not read yet.
  struct page {
    std::uint32_t index = 0; ///< Of the call's page.
    directory::page_location location;
  };

  /// Malformed pages are `bad_size`, all others missing. @pre pages.size() == results.size()
  read_plan(std::span<const get_page> pages, std::span<page_result> results,
            location_cache& locations, stale_records& stale);

  // -- a look

  /// What the look goes by.
  void follow(readers_cluster known);
  /// Pages without a place.
  std::size_t missing() const noexcept { return missing_.size(); }
  std::vector<std::uint32_t> take_missing();
  /// Of the call's page.
  std::uint32_t length_of(std::uint32_t index) const noexcept {
    return results_[index].length_bytes;
  }
  /// Where the page lies in this host's pool, if it does. @pre the page was taken
  void looked_at_own_host(std::uint32_t index, const std::optional<directory::page_location>& here);
  /// Pages are read where they were last, as long as that holder is in the view. Returns how many.
  std::size_t take_remembered();
  /// Holders that denied a page in the first look. @pre each page gets `told_by_holder`
  promote_plan ask_holders();
  std::vector<page_key> keys_missing() const;
  /// What the directory says of `keys_missing`, one answer a key.
  void looked_up(std::span<const lookup_answer> answers, reader_place reader);

  // -- its reads

  /// Pages that are on a disk only. @pre each gets `promoted`
  promote_plan take_cold();
  /// Pages to read from memory now; those whose place makes no sense are decided instead.
  std::vector<page> take_round();
  /// Whether the page is copied out of this host's pool, and not read from a peer.
  bool is_own(const page& which) const noexcept;
  /// Before an own page is copied. False: it is decided. @param late the deadline has passed
  bool may_copy(const page& which, bool late);
  /// @param status `timed_out`: the deadline passed during the copy
  void copied(const page& which, page_status status);
  /// @param used the holder and the generation that the page was read by
  void was_read(std::uint32_t index, const directory::page_location& used, page_status status,
                page_origin origin);
  /// @param late the deadline has passed
  void promoted(const promote_plan::place& now, bool late);
  void told_by_holder(const promote_plan::place& now, bool late);

  /// Whether some pages are to be looked for once more: these are missing then.
  bool look_again();

private:
  /// What happened to one page in this call; only calls whose pages were not simply read have it.
  struct past {
    incarnation avoided; ///< The holder whose place was out of date in the first look.
    generation denied;   ///< The filling that this holder has not; 0: it is not asked about it.
    page_status unless_holder = page_status::pending; ///< The page's fate unless its holder has it.
    bool promoted = false; ///< Its place is what a node brought it to for this call.
  };

  past& past_of(std::uint32_t index);
  bool may_read_from(const incarnation& holder) const;
  bool is_last_look() const noexcept { return looks_ == looks_max; }
  /// Into the location cache, unless it is a page of the own pool, whose place is looked up there.
  void remember(std::uint32_t index, const directory::page_location& location);
  void locate(std::uint32_t index, const directory::page_location& location);
  void locate_promoted(std::uint32_t index, const directory::page_location& location);
  /// Whether the page can be read at its place; decides it otherwise.
  bool can_be_read(const page& which);
  /// The page's fate, or another look when its place was out of date.
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
  std::vector<page> located_;
  std::vector<past> pasts_; ///< By index; empty as long as no page needs one.
};

} // namespace peercache::client
