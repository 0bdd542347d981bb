// The calls of cache_client: set, get, exists and remove.

#include "client/cache_client.hpp"
#include "client/calls/call_pieces.hpp"
#include "client/calls/chain_windows.hpp"
#include "client/calls/client_impl.hpp"
#include "client/calls/exists_call.hpp"
#include "client/calls/get_call.hpp"
#include "client/calls/remove_call.hpp"
#include "client/calls/set_call.hpp"

#include <algorithm>

namespace peercache::client {

using std::chrono::steady_clock;

namespace {

/// Whether the call may begin; if not, each result gets the reason. A call with another number of
/// results than of pages does not begin: nothing is written beyond the results.
template <class Page>
bool may_begin(bool open, std::span<const Page> pages, std::span<page_result> results) {
  if (open && pages.size() == results.size())
    return true;
  const auto why_not = open ? page_status::bad_size : page_status::closed;
  std::fill(results.begin(), results.end(), page_result{why_not, page_origin::none, 0});
  return false;
}

/// Ends all pages of a piece whose epochs are not known (dated_pages::known).
void fill_unreachable(std::span<page_result> results) {
  std::fill(results.begin(), results.end(),
            page_result{page_status::unreachable, page_origin::none, 0});
}

} // namespace

void cache_client::set(std::span<const set_page> pages, std::span<page_result> results,
                       std::optional<deadline> until) {
  if (!may_begin(is_open(), pages, results))
    return;
  auto started = steady_clock::now();
  auto limit = impl_->deadline_of(until);
  longest_wait wait;
  in_pieces(results, limit, [&](std::size_t done, std::size_t count) {
    auto start = impl_->session.board().start_call();
    const dated_pages now{start.epochs, pages.subspan(done, count)};
    if (!now.known())
      return fill_unreachable(results.subspan(done, count));
    set_call call{*impl_, now.pages(), results.subspan(done, count), limit, std::move(start.own)};
    call.run();
    wait.add(call.wait());
  });
  impl_->settle_closed(results);
  counters::count_statuses(results, impl_->totals.set_status);
  const auto took = steady_clock::now() - started;
  impl_->totals.set_latency.record(took);
  if (!pages.empty())
    impl_->note_call(link::call_kind::set, pages.front().key, results, took, wait);
}

void cache_client::get(std::span<const get_page> pages, std::span<page_result> results,
                       std::optional<deadline> until) {
  if (!may_begin(is_open(), pages, results))
    return;
  auto started = steady_clock::now();
  auto limit = impl_->deadline_of(until);
  longest_wait wait;
  in_pieces(results, limit, [&](std::size_t done, std::size_t count) {
    auto start = impl_->session.board().start_call();
    const dated_pages now{start.epochs, pages.subspan(done, count)};
    if (!now.known())
      return fill_unreachable(results.subspan(done, count));
    get_call call{*impl_, now.pages(), results.subspan(done, count), limit, std::move(start)};
    call.run();
    wait.add(call.wait());
  });
  impl_->settle_closed(results);
  impl_->totals.count_get(results);
  const auto took = steady_clock::now() - started;
  impl_->totals.get_latency.record(took);
  if (!pages.empty())
    impl_->note_call(link::call_kind::get, pages.front().key, results, took, wait);
}

namespace {

/// Does an `exists` of these keys, or of this chain. Returns how many pages were asked about.
std::size_t find_pages(client_impl& in, std::span<const page_key> keys,
                       std::span<page_result> results, deadline limit, const exists_hold& hold,
                       bool chain) {
  const auto started = steady_clock::now();
  hold_call holds{in, hold, results, limit, chain};
  exists_call call{in, holds, limit};
  const auto ask = [&](std::size_t done, std::size_t count) {
    const auto start = in.session.board().start_call();
    const dated_pages now{start.epochs, keys.subspan(done, count)};
    if (!now.known())
      return fill_unreachable(results.subspan(done, count));
    call.run(done, now.pages(), results.subspan(done, count), start.own);
  };
  auto asked = keys.size();
  if (chain)
    asked = ask_chain(results, limit, in.session.board().topology()->view.members.size(), ask);
  else
    in_pieces(results, limit, ask);
  holds.settle();
  const auto decided = results.first(asked);
  in.settle_closed(decided);
  counters::count_statuses(decided, in.totals.exists_status);
  const auto took = steady_clock::now() - started;
  in.totals.exists_latency.record(took);
  if (!keys.empty())
    in.note_call(link::call_kind::exists, keys.front(), decided, took, call.slowest());
  return asked;
}

} // namespace

void cache_client::exists(std::span<const page_key> keys, std::span<page_result> results,
                          std::optional<deadline> until, const exists_hold& hold) {
  if (may_begin(is_open(), keys, results))
    find_pages(*impl_, keys, results, impl_->deadline_of(until), hold, false);
}

std::size_t cache_client::exists_chain(std::span<const page_key> keys,
                                       std::span<page_result> results,
                                       std::optional<deadline> until, const exists_hold& hold) {
  if (!may_begin(is_open(), keys, results))
    return results.size();
  std::fill(results.begin(), results.end(), page_result{});
  return find_pages(*impl_, keys, results, impl_->deadline_of(until), hold, true);
}

void cache_client::remove(std::span<const page_key> keys, std::span<page_result> results,
                          std::optional<deadline> until, remove_scope scope) {
  if (!may_begin(is_open(), keys, results))
    return;
  const auto limit = impl_->deadline_of(until);
  auto lookup = impl_->lookup();
  std::vector<silent_holder> silent;
  in_pieces(results, limit, [&](std::size_t done, std::size_t count) {
    const bool is_last = done + count == keys.size();
    const auto start = impl_->session.board().start_call();
    const dated_pages now{start.epochs, keys.subspan(done, count)};
    if (!now.known())
      return fill_unreachable(results.subspan(done, count));
    remove_call call{*impl_, now.pages(), results.subspan(done, count), limit};
    call.leave_out(silent, is_last);
    if (scope == remove_scope::every_node)
      call.run_everywhere();
    else
      call.run(lookup);
  });
  impl_->settle_closed(results);
}

} // namespace peercache::client
