#pragma once

#include "client/cache_client.hpp"
#include "client/lookup_plan.hpp"
#include "client/stale_records.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::client {

/// What the removal of a page from several holders comes to: a holder that could not be asked may
/// still have it, so its reason wins; `hit` when one had it; else `not_found`.
/// @param so_far pending: nobody was asked
/// @param said by the next holder; anything but `hit` and `not_found` is a reason
page_status join_removals(page_status so_far, page_status said) noexcept;

/// One `remove` without its session and clock: which holders are asked for which pages, and what
/// their answers come to. Pages are removed where the directory names them and in the own pool, or
/// on all nodes of the view, whatever the directory says.
///
/// Threads: one. No clock, no I/O. Lifetime: keys and results outlive the plan. Invariants: each
/// question ends in one of `answered`, `failed` or `not_asked`; no page is `pending` after `end`.
class remove_plan {
public:
  using is_member = std::function<bool(const incarnation&)>;

  /// One holder's pages.
  struct share {
    incarnation holder;
    std::string keys; ///< Packed.
    std::vector<std::size_t> indices;
  };

  /// All pages are pending. @pre keys.size() == results.size()
  remove_plan(std::span<const page_key> keys, std::span<page_result> results);

  /// The page lies in this host's pool.
  void is_here(std::size_t index) { here_.push_back(index); }
  /// What the directory says, one answer a key.
  void looked_up(std::span<const lookup_answer> answers);
  /// A question for each holder that is in the view. @param own of this host's pool; zero for none
  std::vector<share> ask_holders(const is_member& in_view, const incarnation& own) const;
  /// A question for each of these.
  std::vector<share> ask_all(std::span<const incarnation> members) const;

  /// How long a holder may take of the time that is left: one that is silent leaves some to the
  /// pieces of the call that come later.
  static std::chrono::nanoseconds patience(std::chrono::nanoseconds left, bool is_last_piece);

  /// @param statuses one byte a page. Records of pages that the holder has not are out of date.
  void answered(const share& asked, std::string_view statuses, stale_records& stale);
  void failed(const share& asked) { settle(asked, page_status::timed_out); }
  void not_asked(const share& whom, page_status why) { settle(whom, why); }

  /// All questions have ended.
  void end();
  /// The same after `ask_all`. @param nobody_missing every node that ever was a member was asked
  void end_everywhere(bool nobody_missing);

private:
  void settle(std::size_t index, page_status said) noexcept;
  void settle(const share& part, page_status said) noexcept;
  void add(std::vector<share>& shares, const incarnation& holder, std::size_t index) const;
  std::span<const directory::page_location> locations_of(std::size_t index) const noexcept;

  std::span<const page_key> keys_;
  std::span<page_result> results_;
  std::vector<std::size_t> here_;
  std::vector<lookup_answer> answers_; ///< Empty unless the directory was asked.
};

} // namespace peercache::client
