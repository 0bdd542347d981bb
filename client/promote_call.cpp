#include "client/promote_call.hpp"

#include <algorithm>
#include <array>
#include <chrono>

namespace peercache::client {

using namespace std::chrono_literals;
using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

cold_pages::share& cold_pages::share_of(const incarnation& owner) {
  const auto found = std::find_if(shares_.begin(), shares_.end(),
                                  [&](const auto& share) { return share.owner == owner; });
  if (found != shares_.end())
    return *found;
  shares_.push_back({owner, {}, {}});
  return shares_.back();
}

void cold_pages::add(std::uint32_t index, const page_key& key,
                     const directory::page_location& on_disk) {
  auto& share = share_of(on_disk.owner);
  actors::append_record(share.pages, actors::promoted_page{key, on_disk.length_bytes, 0});
  share.indices.push_back(index);
}

void cold_pages::warm(const actors::topology& cluster) {
  for (auto& share : shares_)
    if (const auto* owner = cluster.find(share.owner); owner != nullptr && owner->linked())
      caf::anon_send(owner->gateway, actors::warm_atom_v, std::move(share.pages));
}

promote_call::promote_call(session& with, const actors::topology& cluster, cold_pages pages,
                           deadline until)
    : self_(with), pages_(std::move(pages)) {
  const auto left = duration_cast<milliseconds>(until - steady_clock::now());
  // The node answers with what it has before we give up.
  const auto within = left - std::clamp(left / 8, 1ms, 50ms);
  for (const auto& share : pages_.shares_) {
    const auto* owner = cluster.find(share.owner);
    if (owner == nullptr || !owner->linked() || within <= 0ms)
      answers_.emplace_back();
    else
      answers_.emplace_back((*self_)->request(owner->gateway, left, actors::promote_atom_v,
                                              share.pages,
                                              static_cast<std::uint32_t>(within.count())));
  }
}

std::vector<promote_call::place> promote_call::take() {
  std::vector<caf::message_id> asked;
  for (const auto& answer : answers_)
    if (answer)
      asked.push_back(answer->id());
  const auto at_close = self_.fail_at_close(std::move(asked));
  std::vector<place> places;
  for (std::size_t i = 0; i < answers_.size(); ++i) {
    const auto& indices = pages_.shares_[i].indices;
    std::string answer;
    if (answers_[i])
      answers_[i]->receive([&](std::string& said) { answer = std::move(said); },
                           [&](const caf::error&) { self_.spoil(); });
    directory::answer_reader reader{answer};
    std::array<directory::page_location, limits::locations_per_key_max> found;
    for (const auto index : indices) {
      std::size_t count = 0;
      const bool there = reader.next(found, count) && count != 0 &&
                         found[0].owner == pages_.shares_[i].owner &&
                         found[0].where == directory::tier::memory;
      places.push_back({index, there ? std::optional(found[0]) : std::nullopt});
    }
  }
  return places;
}

} // namespace peercache::client
