#include "actors/overlap/overlap_actor.hpp"

#include "actors/monitoring/overview_json.hpp"
#include "actors/overlap/overlap_json.hpp"
#include "common/assert.hpp"
#include "common/key_epoch.hpp"

#include <algorithm>
#include <optional>
#include <span>
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
            now.running.at(number).search.answered(*asked, answer, [&](const auto& at) {
              return now.latest->view.find(at.node, at.holder) != nullptr;
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

std::chrono::milliseconds time_left(overlap_pointer self, const running_overlap& query) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(query.until - self->clock().now());
}

/// Asks the next owners of a query's keys while there is time; else answers the query.
void go_on(overlap_pointer self, std::uint64_t number) {
  auto& state = self->state;
  auto& query = state.running.at(number);
  const auto left = time_left(self, query);
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
  query.asker.answer(query.search.question(), query.search.overlaps(), state.latest->view);
  state.open_keys -= query.search.question().keys.size();
  state.running.erase(number);
}

/// What is asked of the blocks on GPUs: the first block, or all of them.
gpu_question gpu_question_of(const overlap_question& asked, bool all) {
  gpu_question question;
  question.spaces = asked.spaces;
  const auto keys = std::span(asked.keys).first(all ? asked.keys.size() : asked.spaces);
  for (const auto& key : keys)
    question.prefixes.push_back(key.prefix());
  return question;
}

void ask_window(overlap_pointer self, std::uint64_t number, const incarnation& whom, bool all);

void let_window_rest(overlap_pointer self, const incarnation& whom) {
  self->state.windowless[whom] = self->clock().now() + self->state.options.windowless_for;
}

void window_answered(overlap_pointer self, std::uint64_t number, const incarnation& whom, bool all,
                     std::optional<gpu_run> run) {
  auto& state = self->state;
  auto& query = state.running.at(number);
  --query.asked;
  const auto* member = state.latest->find(whom);
  if (run && !run->knows_any) {
    let_window_rest(self, whom);
  } else if (run && run->blocks > 0 && member != nullptr) {
    query.search.on_gpu(member->self.id, *std::move(run));
    if (!all && query.search.question().blocks() > 1)
      ask_window(self, number, whom, true);
  }
  go_on(self, number);
}

void ask_window(overlap_pointer self, std::uint64_t number, const incarnation& whom, bool all) {
  auto& state = self->state;
  auto& query = state.running.at(number);
  const auto* member = state.latest->find(whom);
  const auto left = time_left(self, query);
  if (member == nullptr || !member->gateway || left.count() <= 0)
    return;
  ++query.asked;
  const auto patience = state.options.patience / 2;
  // A node that had less time, since the query came late, is asked by the next query as well.
  const bool had_time = left >= patience;
  self->request(member->gateway, std::min(left, patience), gpu_atom_v,
                encode(gpu_question_of(query.search.question(), all)))
      .then(
          [self, number, whom, all](const std::string& answer) {
            window_answered(self, number, whom, all, decode_gpu_run(answer));
          },
          [self, number, whom, all, had_time](const caf::error&) {
            if (had_time)
              let_window_rest(self, whom);
            window_answered(self, number, whom, all, std::nullopt);
          });
}

/// Looks at the GPU window of this node, and asks the other nodes that may have one.
void look_at_windows(overlap_pointer self, std::uint64_t number) {
  auto& state = self->state;
  const auto& question = state.running.at(number).search.question();
  if (question.keys.empty())
    return;
  const auto is_meant = [&question](const discovery::member& who) {
    return question.node.empty() || question.node == who.name;
  };
  const auto now = self->clock().now();
  for (const auto& peer : state.latest->peers) {
    if (!is_meant(peer.self))
      continue;
    if (peer.self.id == state.options.own) {
      if (!state.window.empty())
        state.running.at(number).search.on_gpu(
            peer.self.id, state.window.leading(gpu_question_of(question, true)));
      continue;
    }
    const auto silent = state.windowless.find(peer.self.inc);
    if (silent == state.windowless.end() || silent->second <= now)
      ask_window(self, number, peer.self.inc, false);
  }
}

/// Begins a query that came at this time; `read` makes its question.
template <class Read>
void begin_overlap(overlap_pointer self, overlap_asker asker,
                   std::chrono::steady_clock::time_point arrived, Read&& read) {
  auto& state = self->state;
  if (!state.latest)
    return asker.refuse(503, "this node is in no cluster yet; ask again");
  if (state.running.size() == overlap_queries_max)
    return asker.refuse(503, "too many queries at a time; ask again");
  const auto until = arrived + state.options.patience;
  if (self->clock().now() >= until)
    return asker.refuse(503, "this node is too busy for queries; ask again");
  result<overlap_question> question = read();
  if (!question)
    return asker.refuse(400, question.error().message);
  if (state.open_keys + question->keys.size() > overlap_keys_open_max)
    return asker.refuse(503, "too many keys at a time; ask again");
  state.open_keys += question->keys.size();
  set_epochs(*question, state.options.epochs);
  const auto number = ++state.last;
  state.running.emplace(
      number, running_overlap{std::move(asker),
                              overlap_search(*std::move(question), state.options.own), until, 0});
  look_at_windows(self, number);
  go_on(self, number);
}

/// Answers a query of the HTTP port.
void answer_http(overlap_pointer self, const overlap_call_ptr& call) {
  overlap_asker asker;
  asker.answer = [call](const overlap_question& asked, std::span<const node_overlap> found,
                        const discovery::view& view) {
    call->reply({200, overlap_json(asked, found, view)});
  };
  asker.refuse = [call](int status, const std::string& why) {
    call->reply({status, api_fault_json(why)});
  };
  begin_overlap(self, std::move(asker), call->arrived, [&call] {
    auto question = parse_overlap(call->body, call->by_hash);
    call->body = {};
    return question;
  });
}

/// Answers a query in its binary form that came at this time.
caf::result<std::string> answer_message(overlap_pointer self, const std::string& query,
                                        std::chrono::steady_clock::time_point arrived) {
  auto promise = self->make_response_promise<std::string>();
  overlap_asker asker;
  asker.answer = [promise](const overlap_question& asked, std::span<const node_overlap> found,
                           const discovery::view& view) mutable {
    promise.deliver(encode(matches_of(asked, found, view)));
  };
  asker.refuse = [promise](int status, const std::string& why) mutable {
    promise.deliver(
        caf::make_error(status == 400 ? caf::sec::invalid_argument : caf::sec::runtime_error, why));
  };
  begin_overlap(self, std::move(asker), arrived, [&query]() -> result<overlap_question> {
    const auto read = decode_overlap_query(query);
    if (!read)
      return {errc::invalid_argument, "the query is malformed"};
    return question_of(*read);
  });
  return promise;
}

/// Takes what a session tells of its engine's blocks.
bool take_gpu_report(overlap_state& state, std::uint64_t session, const std::string& told) {
  const auto report = decode_gpu_report(told);
  return report && state.window.take(session, *report);
}

caf::result<std::string> leading_here(const overlap_state& state, const std::string& asked) {
  const auto question = decode_gpu_question(asked);
  if (!question)
    return caf::make_error(caf::sec::invalid_argument, "malformed question for blocks on GPUs");
  return encode(state.window.leading(*question));
}

metrics::samples window_numbers(const gpu_window& window) {
  using metrics::metric;
  metrics::samples now;
  now.set(metric::gpu_keys, window.keys());
  now.set(metric::gpu_reporters, window.reporters());
  now.set(metric::gpu_refused_total, window.refused());
  return now;
}

void follow_view(overlap_state& state, const topology_ptr& next) {
  state.latest = next;
  std::erase_if(state.windowless,
                [&next](const auto& each) { return next->view.find(each.first) == nullptr; });
}

} // namespace

overlap_actor::behavior_type run_overlap(overlap_pointer self, overlap_options options) {
  PEERCACHE_ASSERT(options.directory);
  self->state.options = std::move(options);
  self->state.window = gpu_window(self->state.options.gpu_keys);
  return {
      [self](topology_atom, const topology_ptr& next) { follow_view(self->state, next); },
      [self](locate_atom, const overlap_call_ptr& call) { answer_http(self, call); },
      [self](locate_atom, const std::string& query, std::int64_t arrived_ns, from_here) {
        return answer_message(self, query,
                              caf::actor_clock::time_point{std::chrono::nanoseconds(arrived_ns)});
      },
      [self](gpu_atom, std::uint64_t session, const std::string& told, from_here) {
        return take_gpu_report(self->state, session, told);
      },
      [self](leave_atom, std::uint64_t session, from_here) { self->state.window.drop(session); },
      [self](gpu_atom, const std::string& asked, from_here) {
        return leading_here(self->state, asked);
      },
      [self](stats_atom) { return window_numbers(self->state.window); },
  };
}

} // namespace peercache::actors
