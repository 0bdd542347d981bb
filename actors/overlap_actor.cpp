#include "actors/overlap_actor.hpp"

#include "actors/overlap_json.hpp"
#include "actors/overview_json.hpp"
#include "common/assert.hpp"
#include "common/key_epoch.hpp"

#include <algorithm>
#include <utility>

namespace peercache::actors {

namespace {

using overlap_pointer = overlap_actor::stateful_pointer<overlap_state>;

/// The directory of a node; null without a connection to it.
directory_actor overlap_directory_of(const overlap_state& state, node_id id) {
  if (id == state.options.own)
    return state.options.directory;
  const auto* peer = state.latest->find(id);
  return peer == nullptr ? directory_actor{} : peer->directory;
}

/// Puts the current epoch of its key space into each key.
void set_epochs(overlap_question& question, const storage::epoch_table& epochs) {
  if (epochs.untouched())
    return;
  for (std::size_t space = 0; space < question.spaces && space < question.keys.size(); ++space) {
    const auto epoch = epochs.epoch_of(space_of(question.keys[space]));
    for (auto at = space; at < question.keys.size(); at += question.spaces)
      set_epoch(question.keys[at], epoch);
  }
}

void go_on(overlap_pointer self, std::uint64_t number);

void ask_owner_of_blocks(overlap_pointer self, std::uint64_t number, overlap_search::share what,
                         std::chrono::milliseconds patience) {
  auto& state = self->state;
  auto request = std::move(what.request);
  auto asked = std::make_shared<const overlap_search::share>(std::move(what));
  self->request(overlap_directory_of(state, asked->owner), patience, lookup_atom_v,
                std::move(request))
      .then(
          [self, number, asked](const std::string& answer) {
            auto& now = self->state;
            now.running.at(number).search.answered(*asked, answer, [&](const incarnation& holder) {
              return now.latest->view.find(holder) != nullptr;
            });
            --now.running.at(number).asked;
            go_on(self, number);
          },
          [self, number, asked](const caf::error&) {
            auto& of = self->state.running.at(number);
            of.search.failed(*asked);
            --of.asked;
            go_on(self, number);
          });
}

/// Asks the next owners of a query's keys while there is time; else answers the query.
void go_on(overlap_pointer self, std::uint64_t number) {
  auto& state = self->state;
  auto& query = state.running.at(number);
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(query.until - self->clock().now());
  if (left.count() > 0) {
    const auto linked = [&state](node_id id) {
      return static_cast<bool>(overlap_directory_of(state, id));
    };
    for (auto& share : query.search.next(state.latest->ring, state.options.replicas, linked)) {
      ++query.asked;
      ask_owner_of_blocks(self, number, std::move(share),
                          std::min(left, state.options.patience / 2));
    }
  }
  if (query.asked > 0)
    return;
  query.call->reply(
      {200, overlap_json(query.search.question(), query.search.overlaps(), state.latest->view)});
  state.open_keys -= query.search.question().keys.size();
  state.running.erase(number);
}

void begin_overlap(overlap_pointer self, const overlap_call_ptr& call) {
  auto& state = self->state;
  if (!state.latest)
    return call->reply({503, api_fault_json("this node is in no cluster yet; ask again")});
  if (state.running.size() == overlap_queries_max)
    return call->reply({503, api_fault_json("too many queries at a time; ask again")});
  const auto until = call->arrived + state.options.patience;
  if (self->clock().now() >= until)
    return call->reply({503, api_fault_json("this node is too busy for queries; ask again")});
  auto question = parse_overlap(call->body, call->by_hash);
  call->body = {};
  if (!question)
    return call->reply({400, api_fault_json(question.error().message)});
  if (state.open_keys + question->keys.size() > overlap_keys_open_max)
    return call->reply({503, api_fault_json("too many keys at a time; ask again")});
  state.open_keys += question->keys.size();
  set_epochs(*question, state.options.epochs);
  const auto number = ++state.last;
  state.running.emplace(
      number,
      running_overlap{call, overlap_search(*std::move(question), state.options.own), until, 0});
  go_on(self, number);
}

} // namespace

overlap_actor::behavior_type run_overlap(overlap_pointer self, overlap_options options) {
  PEERCACHE_ASSERT(options.directory);
  self->state.options = std::move(options);
  return {
      [self](topology_atom, const topology_ptr& next) { self->state.latest = next; },
      [self](locate_atom, const overlap_call_ptr& call) { begin_overlap(self, call); },
  };
}

} // namespace peercache::actors
