#include "actors/monitoring/overview_actor.hpp"

#include "actors/monitoring/overview_json.hpp"
#include "common/assert.hpp"
#include "common/key_epoch.hpp"
#include "common/unix_time.hpp"
#include "directory/wire.hpp"
#include "link/caf_fault.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <span>
#include <utility>

namespace peercache::actors {

namespace {

using overview_pointer = overview_actor::stateful_pointer<overview_state>;
using time_point = std::chrono::steady_clock::time_point;

/// Time between two looks whether somebody scrapes this node, which tells this actor nothing.
constexpr std::chrono::milliseconds look_again{500};

/// The gateway of a node; null without a connection to it.
gateway_actor gateway_of(const overview_state& state, const incarnation& who) {
  if (who == state.options.self.inc)
    return state.options.gateway;
  const auto* peer = state.seen.latest() ? state.seen.latest()->find(who) : nullptr;
  return peer == nullptr ? gateway_actor{} : peer->gateway;
}

void ask_for_status(overview_pointer self, const incarnation& who) {
  auto& state = self->state;
  self->request(gateway_of(state, who), state.options.answer_timeout, status_atom_v)
      .then(
          [self, who](node_report& report) {
            self->state.seen.answered(who, self->clock().now(), unix_ms(),
                                      status_of(std::move(report)));
          },
          [self, who](const caf::error& why) {
            self->state.seen.answered(who, self->clock().now(), unix_ms(), fault_of(why));
          });
}

/// Puts the nodes' history on the board if it has changed. Called once per turn and not for each
/// answer, because the whole history is copied.
void share_history(overview_state& state) {
  if (std::exchange(state.heard_history, false))
    state.options.board->history.store(state.history.memory(state.options.self.inc));
}

void ask_for_history(overview_pointer self, const cluster_history::question& what) {
  auto& state = self->state;
  const auto failed = [self, who = what.whom] {
    self->state.history.failed(who);
    self->state.heard_history = true;
  };
  const auto whom = gateway_of(state, what.whom);
  if (!whom)
    return failed();
  self->request(whom, state.options.answer_timeout, history_atom_v, what.after_point,
                what.after_event)
      .then(
          [self, who = what.whom](const history_report& said) {
            self->state.history.answered(who, said);
            self->state.heard_history = true;
          },
          [failed](const caf::error&) { failed(); });
}

/// Shows the answer to a question about a key, once all owners have answered.
void finish_search(overview_pointer self, const std::string& text) {
  auto& state = self->state;
  const auto found = state.searches.find(text);
  if (found == state.searches.end() || !found->second.complete())
    return;
  auto answers = *state.options.board->keys.load();
  answers[text] = {key_json(found->second, state.seen.view()), self->clock().now()};
  while (answers.size() > key_answers_max)
    answers.erase(std::min_element(answers.begin(), answers.end(),
                                   [](auto& a, auto& b) { return a.second.made < b.second.made; }));
  state.options.board->keys.store(std::move(answers));
  state.searches.erase(found);
}

void ask_owner(overview_pointer self, const std::string& text, const peer& owner,
               const std::string& question) {
  auto& state = self->state;
  if (!owner.linked())
    return state.searches[text].failed(owner.self.name, "no connection to it");
  self->request(owner.directory, state.options.answer_timeout, lookup_atom_v, question)
      .then(
          [self, text, name = owner.self.name](const std::string& answer) {
            self->state.searches[text].answered(name, answer);
            finish_search(self, text);
          },
          [self, text, name = owner.self.name](const caf::error& why) {
            self->state.searches[text].failed(name, fault_of(why).message);
            finish_search(self, text);
          });
}

/// Begins to ask the owners of a key for its locations, unless they are being asked or too many
/// searches are open.
void search_key(overview_pointer self, const std::string& text) {
  auto& state = self->state;
  auto key = parse_page_key(text);
  if (!key || state.searches.contains(text) || state.searches.size() == key_searches_max)
    return;
  const auto& epochs = state.options.epochs;
  set_epoch(*key, epochs.untouched() ? 0 : epochs.epoch_of(space_of(*key)));
  std::array<node_id, discovery::hash_ring::replicas_max> owners;
  const auto latest = state.seen.latest();
  const auto wanted = std::min<std::size_t>(state.options.replicas, owners.size());
  const auto count = latest ? latest->ring.owners(*key, std::span(owners).first(wanted)) : 0;
  state.searches.emplace(text, key_search(*key, count));
  std::string question;
  directory::append_lookup(question, *key);
  for (std::size_t i = 0; i < count; ++i)
    if (const auto* owner = latest->find(owners[i]))
      ask_owner(self, text, *owner, question);
  finish_search(self, text);
}

bool within(const std::atomic<time_point>& last, time_point now, std::chrono::milliseconds lasts) {
  const auto when = last.load();
  return when != time_point{} && now - when <= lasts;
}

/// How often each node is asked now; nothing: nobody wants to know.
std::optional<std::chrono::milliseconds> pace(const overview_state& state, time_point now) {
  const auto& options = state.options;
  if (within(options.board->looked, now, options.looking_lasts))
    return cluster_overview::ask_every;
  if (state.seen.tells_faults() && within(options.board->scraped, now, options.scraping_lasts))
    return options.watch_every;
  return std::nullopt;
}

void forget(overview_state& state) {
  state.seen.forget();
  state.history.forget();
  state.heard_history = false;
  if (const auto told = state.options.board->history.load();
      told->complete || !told->points.empty())
    state.options.board->history.store({});
  if (!state.options.board->faults.load()->empty())
    state.options.board->faults.store({});
}

/// Puts on the board how many faults of each id the cluster has, for metrics; none if this node
/// does not tell them.
void tell_faults(const overview_state& state) {
  std::map<std::string, std::size_t> counts;
  if (state.seen.tells_faults())
    for (const auto& fault : state.seen.faults())
      ++counts[fault.id];
  state.options.board->faults.store(std::move(counts));
}

void look_at_cluster(overview_pointer self) {
  auto& state = self->state;
  const auto now = self->clock().now();
  const auto every = pace(state, now);
  if (!every)
    return forget(state);
  const bool is_looked_at = *every == cluster_overview::ask_every;
  if (is_looked_at) {
    share_history(state);
    state.history.take(state.seen.shown(), state.options.self.inc);
    for (const auto& what : state.history.due(now))
      ask_for_history(self, what);
  }
  for (const auto& who : state.seen.due(now, unix_ms(), *every))
    ask_for_status(self, who);
  if (!state.seen.complete())
    return;
  tell_faults(state);
  if (is_looked_at)
    state.options.board->overview.store({overview_json(state.seen, now, unix_ms()), now});
}

} // namespace

overview_actor::behavior_type run_overview(overview_pointer self, overview_options options) {
  PEERCACHE_ASSERT(options.gateway && options.board);
  self->state.seen = cluster_overview(options.cluster, options.self);
  self->state.options = std::move(options);
  self->send(self, beat_atom_v, from_here{});
  return {
      [self](topology_atom, const topology_ptr& next) { self->state.seen.take(next); },
      [self](locate_atom, const std::string& key, from_here) { search_key(self, key); },
      [self](turn_atom, from_here) { self->state.beats.plan(self, self->state.options.turn); },
      [self](beat_atom, from_here) {
        auto& own = self->state;
        const auto now = self->clock().now();
        if (!own.beats.due(now))
          return;
        look_at_cluster(self);
        own.beats.plan(self,
                       pace(own, now) ? own.options.turn : std::max(own.options.turn, look_again));
      },
  };
}

} // namespace peercache::actors
