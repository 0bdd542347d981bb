#pragma once

#include "client/lookup/lookup_plan.hpp"
#include "client/notes/stale_records.hpp"
#include "client/values/pages.hpp"
#include "common/page_key.hpp"
#include "common/page_status.hpp"
#include "directory/page_location.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::client {

/// Joins the outcomes of removing one page from several holders: a holder that could not be asked
/// may still have the page, so its reason wins; `hit` when one had it; else `not_found`.
///
/// @param so_far pending: no holder was asked
/// @param said the next holder's outcome; anything but `hit` and `not_found` is a reason
page_status join_removals(page_status so_far, page_status said) noexcept;

/// One `remove` without its session and clock: decides which holders are asked for which pages, and
/// joins their answers. Pages are removed where the directory names them and in this host's pool,
/// or on all nodes of the view, whatever the directory says.
///
/// Threads: one. No clock, no I/O. Lifetime: keys and results outlive the plan. Invariants: each
/// question ends in one of `answered`, `failed` or `not_asked`; no page is `pending` after `end`.
class remove_plan {
public:
  using is_member = std::function<bool(const directory::page_location&)>;

  /// The question to one holder: the pages that it should remove.
  struct share {
    incarnation holder;
    std::string keys; ///< Packed page_keys.
    std::vector<std::size_t> indices;
  };

  /// Begins a plan in which all pages are pending. @pre keys.size() == results.size()
  remove_plan(std::span<const page_key> keys, std::span<page_result> results);

  /// Notes that the page with this index lies in this host's pool.
  void is_here(std::size_t index) { here_.push_back(index); }
  /// Takes the directory's answers, one per key.
  void looked_up(std::span<const lookup_answer> answers);
  /// Returns a question for each holder that is in the view. @param own the holder of this host's
  /// pool; zero: there is none, or it is not in the view
  std::vector<share> ask_holders(const is_member& in_view, const incarnation& own) const;
  /// Returns a question for each of these members.
  std::vector<share> ask_all(std::span<const incarnation> members) const;

  /// Returns how much of the remaining time a holder may take: a silent holder leaves time for
  /// later pieces of the call.
  static std::chrono::nanoseconds patience(std::chrono::nanoseconds left, bool is_last_piece);

  /// Takes a holder's answer. @param statuses one byte per page; records of pages that the holder
  /// does not have are out of date
  void answered(const share& asked, std::string_view statuses, stale_records& stale);
  void failed(const share& asked) { settle(asked, page_status::timed_out); }
  void not_asked(const share& whom, page_status why) { settle(whom, why); }

  /// Call when all questions of `ask_holders` have ended.
  void end();
  /// Call when all questions of `ask_all` have ended. @param nobody_missing every node that ever
  /// was a member was asked
  void end_everywhere(bool nobody_missing);

private:
  void settle(std::size_t index, page_status said) noexcept;
  void settle(const share& part, page_status said) noexcept;
  void add(std::vector<share>& shares, const incarnation& holder, std::size_t index) const;
  std::span<const directory::page_location> locations_of(std::size_t index) const noexcept;

  std::span<const page_key> keys_;
  std::span<page_result> results_;
  std::vector<std::size_t> here_;
  /// The directory's answers, one per key; empty unless it was asked.
  std::vector<lookup_answer> answers_;
};

} // namespace peercache::client
