#include "client/remove_call.hpp"

#include "actors/protocol/pool_wire.hpp"

#include <algorithm>
#include <chrono>

namespace peercache::client {

using namespace std::chrono_literals;
using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

page_status join_removals(page_status so_far, page_status said) noexcept {
  auto rank = [](page_status status) {
    switch (status) {
    case page_status::pending:
      return 0;
    case page_status::not_found:
      return 1;
    case page_status::hit:
      return 2;
    default:
      return 3;
    }
  };
  return rank(said) > rank(so_far) ? said : so_far;
}

remove_call::remove_call(cache_client::impl& client, std::span<const page_key> keys,
                         std::span<page_result> results, deadline until)
    : client_(client), keys_(keys), results_(results), until_(until), answers_(keys.size()) {}

void remove_call::run() {
  client_.look_up(keys_, answers_, until_);
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    results_[i] = {};
    if (answers_[i].status != page_status::hit)
      results_[i].status = answers_[i].status;
  }
  auto cluster = client_.session.board().topology();
  for (const auto& peer : cluster->peers)
    ask(peer);
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    client_.locations.erase(keys_[i]);
    if (results_[i].status == page_status::pending) // Its holders left the view meanwhile.
      results_[i].status = page_status::not_found;
  }
}

void remove_call::settle(std::size_t index, page_status said) noexcept {
  results_[index].status = join_removals(results_[index].status, said);
}

void remove_call::ask(const actors::peer& holder) {
  std::string asked;
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < keys_.size(); ++i)
    for (std::size_t l = 0; l < answers_[i].count; ++l)
      if (answers_[i].locations[l].owner == holder.self.inc) {
        actors::append_record(asked, keys_[i]);
        indices.push_back(i);
      }
  if (indices.empty())
    return;
  auto failed = [&](page_status reason) {
    for (auto index : indices)
      settle(index, reason);
  };
  if (!holder.linked())
    return failed(page_status::unreachable);
  auto left = std::max(duration_cast<milliseconds>(until_ - steady_clock::now()), 1ms);
  session::caller self{client_.session};
  (*self)
      ->request(holder.gateway, left, actors::remove_atom_v, std::move(asked))
      .receive([&](const std::string& statuses) { take(holder, indices, statuses); },
               [&](const caf::error&) {
                 self.spoil();
                 failed(page_status::timed_out);
               });
}

void remove_call::take(const actors::peer& holder, const std::vector<std::size_t>& indices,
                       std::string_view statuses) {
  for (std::size_t i = 0; i < indices.size(); ++i) {
    auto said = i < statuses.size() ? static_cast<page_status>(statuses[i]) : page_status::refused;
    bool known = said == page_status::hit || said == page_status::not_found;
    settle(indices[i], known ? said : page_status::refused);
    if (said != page_status::not_found)
      continue;
    const auto& answer = answers_[indices[i]];
    for (std::size_t l = 0; l < answer.count; ++l)
      if (const auto& false_record = answer.locations[l]; false_record.owner == holder.self.inc)
        client_.session.board().stale.add(
            {keys_[indices[i]], false_record.owner, false_record.gen});
  }
}

} // namespace peercache::client
