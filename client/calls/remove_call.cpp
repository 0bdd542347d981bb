#include "client/calls/remove_call.hpp"

#include "common/assert.hpp"
#include "link/protocol/pool_wire.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

namespace peercache::client {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

namespace {

/// Longest wait for the pages of an earlier set of this host: they are in their node's pool one
/// message after the set's return, and later only when the node is frozen or gone.
constexpr auto put_patience = 50ms;
constexpr auto put_look_interval = 100us;

} // namespace

remove_call::remove_call(client_impl& client, std::span<const page_key> keys,
                         std::span<page_result> results, deadline until)
    : client_(client), keys_(keys), until_(until), own_(client.session.board().pool()),
      plan_(keys, results) {}

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
          plan_.is_here(i);
      });
}

void remove_call::forget_places() {
  for (const auto& key : keys_)
    client_.locations.erase(key);
}

void remove_call::run(directory_lookup& lookup) {
  await_own_puts();
  std::vector<lookup_answer> answers(keys_.size());
  lookup.run(keys_, answers, until_);
  plan_.looked_up(answers);
  const auto cluster = client_.session.board().topology();
  const auto in_view = [&](const directory::page_location& at) {
    return cluster->find(at.node, at.holder) != nullptr;
  };
  const bool own_is_in_view = own_ && cluster->find(own_->node.id, own_->node.inc) != nullptr;
  ask(*cluster, plan_.ask_holders(in_view, own_is_in_view ? own_->node.inc : incarnation{}));
  forget_places();
  plan_.end();
}

void remove_call::run_everywhere() {
  await_own_puts();
  const auto cluster = client_.session.board().topology();
  std::vector<incarnation> members;
  for (const auto& peer : cluster->peers)
    members.push_back(peer.self.inc);
  ask(*cluster, plan_.ask_all(members));
  forget_places();
  plan_.end_everywhere(client_.session.board().nodes_gone(*cluster).empty());
}

std::optional<std::size_t> remove_call::send(member_answers& answers, const link::peer* holder,
                                             const remove_plan::share& part, deadline patience) {
  if (holder == nullptr || !holder->linked()) {
    plan_.not_asked(part, page_status::unreachable);
    return std::nullopt;
  }
  if (silent_ != nullptr)
    for (const auto& silent : *silent_)
      if (silent.holder == part.holder) {
        plan_.not_asked(part, silent.why);
        return std::nullopt;
      }
  if (until_ - steady_clock::now() < 1ms) {
    plan_.not_asked(part, page_status::timed_out);
    return std::nullopt;
  }
  return answers.ask(part.holder, link::member_question::remove, part.keys, patience);
}

void remove_call::settle(const remove_plan::share& part, const member_answers::outcome& said) {
  if (said.body)
    return plan_.answered(part, *said.body, client_.session.board().stale);
  // Where the connection broke, nobody knows whether the holder had been asked.
  const auto why =
      said.how == question_end::gone ? page_status::unreachable : page_status::timed_out;
  if (silent_ != nullptr)
    silent_->push_back({part.holder, why});
  if (why == page_status::timed_out)
    plan_.failed(part);
  else
    plan_.not_asked(part, why);
}

void remove_call::ask(const link::topology& cluster,
                      const std::vector<remove_plan::share>& shares) {
  if (shares.empty())
    return;
  member_answers answers(client_.session.members(), client_.session.closing());
  const auto now = steady_clock::now();
  const auto patience = now + remove_plan::patience(until_ - now, is_last_);
  std::vector<std::optional<std::size_t>> asked;
  asked.reserve(shares.size());
  for (const auto& part : shares)
    asked.push_back(send(answers, cluster.find(part.holder), part, patience));
  answers.wait(patience);
  PEERCACHE_ASSERT(asked.size() == shares.size());
  for (std::size_t i = 0; i < shares.size(); ++i)
    if (asked[i])
      settle(shares[i], answers.take(*asked[i]));
}

} // namespace peercache::client
