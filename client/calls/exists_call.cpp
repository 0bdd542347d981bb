#include "client/calls/exists_call.hpp"

#include "client/calls/chain_windows.hpp"
#include "client/lookup/location_choice.hpp"
#include "client/members/promote_call.hpp"
#include "common/assert.hpp"

#include <optional>

namespace peercache::client {

exists_call::exists_call(client_impl& client, hold_call& holds, deadline until)
    : client_(client), holds_(holds), until_(until), lookup_(client.lookup()) {}

void exists_call::run(std::size_t first, std::span<const page_key> keys,
                      std::span<page_result> results, const own_pool_ptr& own) {
  PEERCACHE_ASSERT(keys.size() == results.size());
  first_ = first;
  own_ = own;
  holds_.begin(own);
  find_on_own_host(keys, results);
  holds_.hold_found_here();
  ask_directory(keys, results);
  if (holds_.is_chain())
    if (const auto hits = leading_hits(results); hits < results.size())
      holds_.end_chain(first_ + hits);
  holds_.run();
}

void exists_call::ask_directory(std::span<const page_key> keys, std::span<page_result> results) {
  std::vector<page_key> some;
  if (elsewhere_.size() < keys.size())
    for (const auto index : elsewhere_)
      some.push_back(keys[index]);
  const auto asked = elsewhere_.size() < keys.size() ? std::span<const page_key>(some) : keys;
  if (asked.empty())
    return;
  answers_.resize(asked.size());
  lookup_.run(asked, answers_, until_);
  take(asked, results);
}

void exists_call::find_on_own_host(std::span<const page_key> keys, std::span<page_result> results) {
  elsewhere_.clear();
  find_each(
      own_, keys.size(), [keys](std::size_t i) -> const page_key& { return keys[i]; },
      [](std::size_t) { return std::uint32_t{0}; },
      [&](std::size_t i, const std::optional<directory::page_location>& here) {
        if (here) {
          results[i] = {page_status::hit, page_origin::own_host, here->length_bytes};
          holds_.found(first_ + i, *here);
        } else {
          elsewhere_.push_back(static_cast<std::uint32_t>(i));
        }
      });
}

void exists_call::take(std::span<const page_key> asked, std::span<page_result> results) {
  PEERCACHE_ASSERT(asked.size() == elsewhere_.size() && asked.size() == answers_.size());
  const auto place = place_of(client_, own_);
  promote_plan cold;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (i > 0 && i % location_cache::stores_ahead == 0)
      client_.locations.prefetch_for_stores(asked.subspan(i));
    auto& result = results[elsewhere_[i]];
    result = {};
    result.status = answers_[i].status;
    if (answers_[i].status == page_status::not_found)
      client_.locations.erase(asked[i]);
    if (answers_[i].status != page_status::hit)
      continue;
    const auto& best = choose_location(answers_[i], place);
    const bool here = own_ && best.holder == own_->node.inc;
    result.origin = here ? page_origin::own_host : page_origin::other_host;
    if (best.where == directory::tier::disk) {
      result.origin = page_origin::disk;
      cold.add(elsewhere_[i], asked[i], best);
    }
    result.length_bytes = best.length_bytes;
    client_.remember(asked[i], best, own_);
    holds_.found(first_ + elsewhere_[i], best);
  }
  if (!cold.empty())
    warm(cold, *client_.session.board().topology(),
         [this](const incarnation& whom, member_request request) {
           client_.session.members().ask(whom, std::move(request));
         });
}

} // namespace peercache::client
