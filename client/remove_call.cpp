#include "client/remove_call.hpp"

#include "common/assert.hpp"
#include "link/protocol/pool_wire.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

namespace peercache::client {

using namespace std::chrono_literals;
using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

/// Longest wait for the pages of an earlier set of this host: they are in their node's pool one
/// message after the set's return, and later only when the node is frozen or gone.
constexpr auto put_patience = 50ms;
constexpr auto put_look_interval = 100us;

} // namespace

remove_call::remove_call(cache_client::impl& client, std::span<const page_key> keys,
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
  const auto in_view = [&](const incarnation& inc) { return cluster->find(inc) != nullptr; };
  ask(*cluster, plan_.ask_holders(in_view, own_ ? own_->node.inc : incarnation{}));
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

std::optional<remove_call::pending_answer>
remove_call::send(session::caller& self, const link::peer* holder, const remove_plan::share& part) {
  if (holder == nullptr || !holder->linked()) {
    plan_.not_asked(part, page_status::unreachable);
    return std::nullopt;
  }
  const auto left = duration_cast<milliseconds>(until_ - steady_clock::now());
  const bool was_silent = silent_ != nullptr && std::find(silent_->begin(), silent_->end(),
                                                          part.holder) != silent_->end();
  if (left < 1ms || was_silent) {
    plan_.not_asked(part, page_status::timed_out);
    return std::nullopt;
  }
  const auto patience = duration_cast<milliseconds>(remove_plan::patience(left, is_last_));
  return self->request(holder->gateway, patience, link::remove_atom_v, part.keys);
}

void remove_call::ask(const link::topology& cluster,
                      const std::vector<remove_plan::share>& shares) {
  if (shares.empty())
    return;
  session::caller self{client_.session};
  std::vector<std::optional<pending_answer>> answers;
  std::vector<caf::message_id> asked;
  for (const auto& part : shares) {
    answers.push_back(send(self, cluster.find(part.holder), part));
    if (answers.back())
      asked.push_back(answers.back()->id());
  }
  const auto at_close = self.fail_at_close(std::move(asked));
  PEERCACHE_ASSERT(answers.size() == shares.size());
  // All time-outs run already: receiving the answers one after the other takes no longer than the
  // slowest.
  for (std::size_t i = 0; i < shares.size(); ++i)
    if (answers[i])
      answers[i]->receive(
          [&, &part = shares[i]](const std::string& statuses) {
            plan_.answered(part, statuses, client_.session.board().stale);
          },
          [&, &part = shares[i]](const caf::error&) {
            self.spoil();
            if (silent_ != nullptr)
              silent_->push_back(part.holder);
            plan_.failed(part);
          });
}

} // namespace peercache::client
