#include "actors/clearing/clearing_actor.hpp"

#include "actors/clearing/clearing_goodbye.hpp"
#include "common/assert.hpp"
#include "common/log.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace peercache::actors {

using metrics::metric;

namespace {

using namespace std::chrono_literals;

/// Longest wait of a member for the nodes that it left behind. In a cluster that is started node by
/// node all of them have started by then.
constexpr auto catch_up_patience = 15s;

/// The requests to pool and disk have no time-out: both live in this process and answer for as long
/// as this actor does.
constexpr auto local_timeout = caf::infinite;

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names)
    text += (text.empty() ? "" : ", ") + name;
  return text;
}

} // namespace

clear_report clearing_state::report_of(const open_clear& clear) const {
  clear_report report;
  report.epoch = clear.epoch;
  report.unaware = spaces.unaware(clear.space, clear.epoch);
  report.missing = spaces.missing();
  std::vector<std::string> reasons;
  if (left || !is_member() || !spaces.caught_up())
    reasons.push_back("this node is in no view of the cluster: it has told nobody");
  if (spaces.ends() && !left)
    reasons.push_back("this node is being stopped");
  if (!why_not_kept.empty())
    reasons.push_back("this node cannot remember it: " + why_not_kept);
  if (keeping != 0)
    reasons.push_back("this node's disk has not remembered it yet");
  if (withdrawing != 0)
    reasons.push_back("pages of before are still being withdrawn here");
  if (!report.unaware.empty())
    reasons.push_back(joined(report.unaware) +
                      " did not confirm it in time: frozen, out of reach, busy withdrawing, or "
                      "unable to remember it on its disk");
  if (!report.missing.empty())
    reasons.push_back(joined(report.missing) +
                      " left the cluster without saying so, and its clients may still read pages "
                      "of before; what comes back hears of the clear, what is gone for good has to "
                      "be named (peercache clear --gone NODE)");
  for (const auto& reason : reasons)
    report.why_not += (report.why_not.empty() ? "" : "; ") + reason;
  report.certain = reasons.empty();
  return report;
}

metrics::samples clearing_state::samples() const {
  auto now = totals;
  now.set(metric::cleared_spaces, spaces.count());
  now.set(metric::clear_nodes_missing, spaces.missing().size());
  return now;
}

bool clearing_state::is_due(const discovery::member& whom) const {
  if (!spaces.caught_up() || spaces.is_to_hear(whom.inc))
    return true;
  return std::any_of(open.begin(), open.end(), [&](const open_clear& clear) {
    const auto unaware = spaces.unaware(clear.space, clear.epoch);
    return std::find(unaware.begin(), unaware.end(), whom.name) != unaware.end();
  });
}

bool clearing_state::has_news() const {
  if (!spaces.caught_up() || !open.empty() || !tellers.empty() || !spaces.awaited().empty())
    return true;
  return cluster && !left &&
         std::any_of(cluster->peers.begin(), cluster->peers.end(), [this](const peer& whom) {
           return whom.self.inc != options.self && whom.gateway && spaces.is_to_hear(whom.self.inc);
         });
}

namespace {

/// Plans this actor's next beat: soon when the beat has something to do, after a longer rest when
/// not, and no later than when the time of a clear has passed.
void plan_beat(clearing_pointer self) {
  auto& state = self->state;
  const auto beat = state.options.beat;
  const auto now = self->clock().now();
  auto next = next_beat(now, state.has_news() ? beat : std::max(beat, link::rest_period));
  // One message for the first of these times: one for each would stay in the clock until then.
  for (const auto& clear : state.open)
    next = std::min(next, clear.until);
  state.beats.plan(self, next);
}

/// Answers the clears that are certain, and those whose time has passed. Nodes that are missing
/// stay missing, so a clear without them is answered, as not certain, once all members know it.
void settle_clears(clearing_pointer self) {
  auto& state = self->state;
  const auto now = self->clock().now();
  std::vector<clearing_state::open_clear> left;
  for (auto& clear : std::exchange(state.open, {})) {
    auto report = state.report_of(clear);
    const bool all_said =
        report.unaware.empty() && state.withdrawing == 0 && state.keeping == 0 && state.is_member();
    if (!all_said && now < clear.until && !state.left) {
      left.push_back(std::move(clear));
      continue;
    }
    log::log(report.certain ? log::level::info : log::level::warn, "clear: space {}, epoch {}: {}",
             to_string(clear.space), clear.epoch,
             report.certain ? "no page of before is anywhere" : "not certain: " + report.why_not);
    state.totals.add(metric::clears_total, {report.certain ? "certain" : "uncertain"}, 1);
    clear.promise.deliver(std::move(report));
  }
  // Delivering an answer begins no clear: a clear that began during the loop would be lost here.
  PEERCACHE_ASSERT(state.open.empty());
  state.open = std::move(left);
  plan_beat(self); // Every handler of this actor ends by settling clears, so the next beat is
                   // planned here.
}

/// Answers the nodes that told this node something, once the pool has withdrawn old pages and the
/// disk has written the epochs. `impatient`: answers even while the disk is still writing.
void answer_tellers(clearing_pointer self, bool impatient) {
  auto& state = self->state;
  if (state.withdrawing != 0 || (state.keeping != 0 && !impatient))
    return;
  for (auto& [whom, promise] : std::exchange(state.tellers, {}))
    promise.deliver(state.spaces.tell(whom, state.done()));
}

void finish_step(clearing_pointer self, std::size_t& steps) {
  PEERCACHE_ASSERT(steps > 0); // Pool and disk answer each request once.
  --steps;
  answer_tellers(self, false);
  settle_clears(self);
}

/// Keeps for the next process of this node the life record, beside the pool's memory, and the
/// cleared spaces and the members, on disk.
void keep(clearing_pointer self) {
  auto& state = self->state;
  note_life(self);
  auto bytes = state.spaces.encode_for_disk();
  if (!state.options.disk || (bytes == state.kept_bytes && state.why_not_kept.empty()))
    return;
  ++state.keeping;
  state.kept_bytes = bytes;
  const auto done = [self](const std::string& why_not) {
    auto& own = self->state;
    if (!why_not.empty() && own.why_not_kept.empty())
      log::warn("clear: which spaces were cleared is not remembered here: {}", why_not);
    own.why_not_kept = why_not;
    finish_step(self, own.keeping);
  };
  self->request(state.options.disk, local_timeout, clear_atom_v, std::move(bytes), from_here{})
      .then(done, [done](const caf::error&) { done("its disk has ended"); });
}

/// Lets the pool give up pages that are older than their space's epoch.
void withdraw_old(clearing_pointer self) {
  ++self->state.withdrawing;
  const auto done = [self] { finish_step(self, self->state.withdrawing); };
  self->request(self->state.options.pool, local_timeout, clear_atom_v, from_here{})
      .then([done](std::uint64_t) { done(); }, [done](const caf::error&) { done(); });
}

/// Shows the topology to the pool, which may then publish its pages. Does nothing while this node
/// waits for nodes that its previous process left behind: they may have cleared those pages.
void show_pool(clearing_pointer self) {
  auto& state = self->state;
  if (state.cluster && state.spaces.awaited().empty())
    self->send(state.options.pool, topology_atom_v, state.cluster);
}

/// Acts on new knowledge of cleared spaces (`rose`: an epoch is higher): keeps it, withdraws old
/// pages, lets clients in once this node has caught up.
void take_stock(clearing_pointer self, bool rose) {
  auto& state = self->state;
  keep(self);
  // The table of a node that left stays closed, whatever that node hears or is asked later.
  const bool first = !state.announced && !state.left && state.spaces.caught_up();
  if (first) {
    state.announced = true;
    state.spaces.open();
  }
  if (rose) { // Earlier answers do not say that the new epoch is known.
    state.asked.clear();
    state.options.epochs_changed();
  }
  if (rose || first) // Pages of the previous process may be older than the epochs.
    withdraw_old(self);
  if (first) {
    // `show_pool` did nothing while this node awaited nodes that it had left behind.
    show_pool(self);
    state.options.caught_up();
  }
}

/// Waits for nodes that went on when this node's previous process left: they may know of clears
/// that this node missed. They may be gone for good, so the wait ends after `catch_up_patience`,
/// and this node then gives up all pages that it has from earlier processes. Called at each beat.
void look_whether_to_wait_on(clearing_pointer self) {
  auto& state = self->state;
  const auto awaited = state.spaces.awaited();
  if (awaited.empty() || state.left || !state.is_member())
    return;
  const auto now = self->clock().now();
  if (!state.waits_until) {
    log::info("clear: this node was stopped while others went on, and waits for what they know: {}",
              awaited);
    state.waits_until = now + catch_up_patience;
  }
  if (now < *state.waits_until)
    return;
  log::warn("clear: pages of before are given up, in all spaces: they may have been cleared since "
            "this node was stopped, and none of those it left behind told it in {} s: {}",
            std::chrono::duration_cast<std::chrono::seconds>(catch_up_patience).count(), awaited);
  state.spaces.wait_no_longer(state.options.unix_seconds());
  take_stock(self, true);
  settle_clears(self);
}

/// Takes in another node's telling; `from` becomes its sender.
result<void> hear(clearing_pointer self, const std::string& bytes, incarnation& from) {
  auto said = cleared_spaces::decode_telling(bytes);
  if (!said)
    return said.error();
  auto rose = self->state.spaces.hear(*said);
  if (!rose)
    return rose.error();
  from = said->from;
  take_stock(self, *rose);
  settle_clears(self);
  return {};
}

void tell(clearing_pointer self, const peer& whom) {
  auto& state = self->state;
  const auto question = ++state.questions;
  const auto inc = whom.self.inc;
  state.asked[inc] = question;
  const auto answered = [self, inc, question] {
    if (const auto found = self->state.asked.find(inc);
        found != self->state.asked.end() && found->second == question)
      self->state.asked.erase(found);
  };
  self->request(whom.gateway, state.options.answer_timeout, tell_atom_v,
                state.spaces.tell(inc, state.done()))
      .then(
          [self, answered](const std::string& bytes) {
            answered();
            incarnation from;
            if (auto heard = hear(self, bytes, from); !heard)
              log::warn("clear: {}", heard.error().message);
          },
          [answered](const caf::error&) { answered(); });
}

void tell_whom_it_concerns(clearing_pointer self) {
  auto& state = self->state;
  if (!state.cluster || state.left)
    return;
  for (const auto& whom : state.cluster->peers)
    if (whom.self.inc != state.options.self && whom.gateway &&
        !state.asked.contains(whom.self.inc) && state.is_due(whom.self))
      tell(self, whom);
}

caf::result<std::string> on_tell(clearing_pointer self, const std::string& bytes) {
  auto& state = self->state;
  if (state.left)
    return answer_goodbye(self, bytes);
  incarnation from;
  if (auto heard = hear(self, bytes, from); !heard)
    return caf::make_error(caf::sec::runtime_error, heard.error().message);
  // A node that ends answers at once: its disk writes no more, so there is nothing to wait for, and
  // a teller that leaves as well asks only once.
  if (state.spaces.ends())
    return state.spaces.tell(from, state.done());
  auto promise = self->make_response_promise<std::string>();
  if (auto& waiting = state.tellers[from]; waiting.pending())
    std::exchange(waiting, promise)
        .deliver(caf::make_error(caf::sec::runtime_error, std::string("it has told more")));
  else
    waiting = promise;
  answer_tellers(self, false);
  plan_beat(self);
  return promise;
}

caf::result<clear_report> on_clear(clearing_pointer self, std::uint64_t space,
                                   std::uint32_t within_ms, const std::string& gone) {
  auto& state = self->state;
  for (std::size_t at = 0; at < gone.size();) {
    const auto end = std::min(gone.find('\n', at), gone.size());
    state.spaces.forgive(gone.substr(at, end - at));
    at = end + 1;
  }
  clearing_state::open_clear clear;
  clear.space = {space};
  clear.until = self->clock().now() + std::chrono::milliseconds(within_ms);
  clear.promise = self->make_response_promise<clear_report>();
  auto promise = clear.promise;
  bool rose = false;
  if (!state.left) {
    clear.epoch = state.spaces.next_epoch(clear.space, state.options.unix_seconds());
    rose = state.spaces.raise(clear.space, clear.epoch);
    clear.epoch = state.spaces.epoch_of(clear.space);
  }
  state.open.push_back(std::move(clear));
  take_stock(self, rose);
  tell_whom_it_concerns(self);
  settle_clears(self);
  return promise;
}

/// Leaves the cluster: clients of this host no longer read any page of its pool, whatever is
/// cleared later, so the other nodes need not wait for this node.
caf::result<bool> on_leave(clearing_pointer self) {
  auto& state = self->state;
  state.left = true;
  state.spaces.close();
  state.options.epochs_changed();
  state.spaces.leave();
  settle_clears(self);
  return say_goodbye(self);
}

void on_topology(clearing_pointer self, const topology_ptr& next) {
  PEERCACHE_ASSERT(next);
  auto& state = self->state;
  if (state.left)
    return;
  const bool fresh = !state.cluster || state.cluster->view != next->view;
  // A node whose connection is gone no longer answers an open question, so it is asked anew.
  for (const auto& whom : next->peers)
    if (!whom.gateway)
      state.asked.erase(whom.self.inc);
  state.cluster = next;
  if (fresh) {
    state.spaces.adopt(next->view);
    take_stock(self, false);
  }
  show_pool(self);
  tell_whom_it_concerns(self);
  settle_clears(self);
}

} // namespace

clearing_actor::behavior_type run_clearing(clearing_pointer self, clearing_options options) {
  auto& state = self->state;
  state.options = std::move(options);
  PEERCACHE_ASSERT(state.options.caught_up && state.options.note && state.options.keep_at_end &&
                   state.options.unix_seconds);
  state.spaces = std::move(state.options.spaces);
  self->set_default_handler(caf::drop);
  state.beats.plan(self, state.options.beat);
  return {
      [self](clear_atom, std::uint64_t space, std::uint32_t within_ms, const std::string& gone,
             from_here) { return on_clear(self, space, within_ms, gone); },
      [self](tell_atom, const std::string& bytes, from_here) { return on_tell(self, bytes); },
      [self](drain_atom, from_here) { self->state.spaces.end(); },
      [self](leave_atom, from_here) { return on_leave(self); },
      [self](stats_atom) { return self->state.samples(); },
      [self](topology_atom, const topology_ptr& next) { on_topology(self, next); },
      [self](beat_atom, from_here) {
        if (!self->state.beats.due(self->clock().now()))
          return;
        look_whether_to_wait_on(self);
        answer_tellers(self, true);
        tell_whom_it_concerns(self);
        settle_clears(self);
      },
  };
}

} // namespace peercache::actors
