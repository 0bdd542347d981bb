#include "client/remove_call.hpp"

#include "actors/protocol/pool_wire.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

namespace peercache::client {

using namespace std::chrono_literals;
using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

/// A set that has returned is in its node's pool after a message; longer than this it takes where
/// that is frozen or gone.
constexpr auto put_patience = 50ms;
constexpr auto put_look_interval = 100us;

} // namespace

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
    : client_(client), keys_(keys), results_(results), until_(until),
      own_(client.session.board().pool()), answers_(keys.size()) {}

void remove_call::await_own_puts() {
  const auto limit = std::min(until_, steady_clock::now() + put_patience);
  find_each(
      own_, keys_.size(), [this](std::size_t i) -> const page_key& { return keys_[i]; },
      [](std::size_t) { return std::uint32_t{0}; },
      [&](std::size_t i, std::optional<directory::page_location> here) {
        while (here && !here->gen.readable() && steady_clock::now() < limit) {
          std::this_thread::sleep_for(put_look_interval);
          here = own_->find(keys_[i]);
        }
        if (here)
          on_own_host_.push_back(i);
      });
}

void remove_call::add_own_host(const actors::topology& cluster, shares& holders) const {
  const auto* self = own_ ? cluster.find(own_->node.inc) : nullptr;
  for (const auto i : self != nullptr ? on_own_host_ : std::vector<std::size_t>{}) {
    const auto known = std::span(answers_[i].locations).first(answers_[i].count);
    if (std::any_of(known.begin(), known.end(),
                    [&](const auto& at) { return at.owner == self->self.inc; }))
      continue;
    auto& part = holders[self];
    actors::append_record(part.keys, keys_[i]);
    part.indices.push_back(i);
  }
}

void remove_call::run(directory_lookup& lookup) {
  await_own_puts();
  lookup.run(keys_, answers_, until_);
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    results_[i] = {};
    if (answers_[i].status != page_status::hit)
      results_[i].status = answers_[i].status;
  }
  const auto cluster = client_.session.board().topology();
  auto holders = shares_of(*cluster);
  add_own_host(*cluster, holders);
  if (!holders.empty())
    ask(holders);
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    client_.locations.erase(keys_[i]);
    if (results_[i].status == page_status::pending) // Its holders left the view meanwhile.
      results_[i].status = page_status::not_found;
  }
}

void remove_call::run_everywhere() {
  await_own_puts();
  const auto cluster = client_.session.board().topology();
  std::fill(results_.begin(), results_.end(), page_result{});
  auto members = shares_of_everybody(*cluster);
  ask(members);
  const bool some_gone = !client_.session.board().nodes_gone(*cluster).empty();
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    client_.locations.erase(keys_[i]);
    if (some_gone || members.empty())
      settle(i, page_status::unreachable);
  }
}

void remove_call::settle(std::size_t index, page_status said) noexcept {
  results_[index].status = join_removals(results_[index].status, said);
}

void remove_call::settle(const share& part, page_status said) noexcept {
  for (const auto index : part.indices)
    settle(index, said);
}

remove_call::shares remove_call::shares_of(const actors::topology& cluster) const {
  shares holders;
  for (std::size_t i = 0; i < keys_.size(); ++i)
    for (std::size_t l = 0; l < answers_[i].count; ++l)
      if (const auto* holder = cluster.find(answers_[i].locations[l].owner); holder != nullptr) {
        auto& part = holders[holder];
        actors::append_record(part.keys, keys_[i]);
        part.indices.push_back(i);
      }
  return holders;
}

remove_call::shares remove_call::shares_of_everybody(const actors::topology& cluster) const {
  share all;
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    actors::append_record(all.keys, keys_[i]);
    all.indices.push_back(i);
  }
  shares members;
  for (const auto& peer : cluster.peers) {
    auto& part = members[&peer];
    part.keys = all.keys;
    part.indices = all.indices;
  }
  return members;
}

void remove_call::send(session::caller& self, const actors::peer& holder, share& part) {
  if (!holder.linked())
    return settle(part, page_status::unreachable);
  const auto left = duration_cast<milliseconds>(until_ - steady_clock::now());
  const bool was_silent = silent_ != nullptr && std::find(silent_->begin(), silent_->end(),
                                                          holder.self.inc) != silent_->end();
  if (left < 1ms || was_silent)
    return settle(part, page_status::timed_out);
  const auto patience =
      is_last_ ? left : duration_cast<milliseconds>(lookup_plan::patience_for_view(left));
  part.answer.emplace(
      (*self)->request(holder.gateway, patience, actors::remove_atom_v, std::move(part.keys)));
}

void remove_call::ask(shares& holders) {
  session::caller self{client_.session};
  for (auto& [holder, part] : holders)
    send(self, *holder, part);
  std::vector<caf::message_id> asked;
  for (const auto& [holder, part] : holders)
    if (part.answer)
      asked.push_back(part.answer->id());
  const auto at_close = self.fail_at_close(std::move(asked));
  // Their time-outs run already: to receive one after the other takes no longer than the slowest.
  for (auto& [holder, part] : holders)
    if (part.answer)
      part.answer->receive(
          [&, who = holder, &asked = part](const std::string& statuses) {
            take(*who, asked.indices, statuses);
          },
          [&, who = holder, &asked = part](const caf::error&) {
            self.spoil();
            if (silent_ != nullptr)
              silent_->push_back(who->self.inc);
            settle(asked, page_status::timed_out);
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
