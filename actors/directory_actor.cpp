#include "actors/directory_actor.hpp"

#include "actors/errors.hpp"
#include "common/assert.hpp"
#include "common/log.hpp"
#include "directory/shard_batch.hpp"
#include "directory/shard_repair.hpp"
#include "discovery/view_codec.hpp"

#include <algorithm>
#include <vector>

namespace peercache::actors {

using metrics::metric;

bool directory_state::adopt(const topology_ptr& next) {
  PEERCACHE_ASSERT(next);
  if (next->view.stamp() <= left_at)
    return false;
  cluster = next;
  std::vector<incarnation> living;
  living.reserve(next->view.members.size());
  for (const auto& member : next->view.members)
    living.push_back(member.inc);
  shard.follow(living);
  std::vector<incarnation> away;
  for (const auto& peer : next->peers)
    if (peer.tried && !peer.linked())
      away.push_back(peer.self.inc);
  shard.set_out_of_reach(away);
  return true;
}

void directory_state::leave(const discovery::view& without) {
  left_at = std::max(left_at, without.stamp());
  if (auto dropped = shard.set_members({}); dropped > 0)
    log::info("directory: forgot all {} records, the cluster goes on without this node", dropped);
}

void directory_state::forget_gone() {
  const auto forgotten = [this](const page_key& key) {
    lost.note(key, page_loss::holder_gone, changed_at);
  };
  if (auto dropped = shard.forget_gone(forgotten); dropped > 0)
    log::info("directory: forgot {} records of nodes that are gone", dropped);
}

void directory_state::forget_foreign_keys() {
  if (!cluster || cluster->find(options.self) == nullptr)
    return;
  auto dropped = shard.retain([this](const page_key& key) { return owns(key); });
  if (dropped > 0)
    log::info("directory: forgot {} records that other nodes own now", dropped);
}

bool directory_state::owns(const page_key& key) const {
  return cluster->ring.owns(options.self, key, options.replicas);
}

result<std::string> directory_state::publish(std::string_view batch) {
  totals.add(metric::directory_publishes_total,
             batch.size() / directory::wire::publish_record_bytes);
  return directory::publish_batch(shard, batch);
}

result<std::string> directory_state::publish(std::string_view batch, std::uint64_t term,
                                             std::uint64_t version) {
  const bool behind =
      cluster && std::pair(cluster->view.term, cluster->view.version) < std::pair(term, version);
  return behind ? directory::answer_from_behind(batch) : publish(batch);
}

result<std::string> directory_state::look_up(std::string_view keys) {
  totals.add(metric::directory_lookups_total, keys.size() / directory::wire::key_bytes);
  directory::key_ownership ownership;
  // A node with a closed epoch table may not hear of clears, so its shard names no page.
  const bool closed = options.epochs.closed();
  if (cluster && cluster->view.stamp() > left_at && !closed) {
    ownership.by = {cluster->view.term, cluster->view.version};
    ownership.owns = [this](const page_key& key) { return owns(key); };
  } else {
    // No view of this node says who owns a key, so every key is `not_mine`: readers go on to its
    // next owner.
    ownership.owns = [](const page_key&) { return false; };
  }
  // Pools withdraw the records of cleared pages. Until they have done so, a client that has not
  // heard of the clear would still be sent to cleared pages.
  if (closed || !options.epochs.untouched())
    ownership.is_old = [this, closed](const page_key& key) {
      return closed || options.epochs.is_old(key);
    };
  std::uint64_t foreign = 0;
  auto answer = directory::lookup_batch(shard, keys, ownership, foreign);
  totals.add(metric::directory_foreign_lookups_total, foreign);
  return answer;
}

metrics::samples directory_state::samples() const {
  auto now = totals;
  const auto records = shard.locations();
  now.set(metric::directory_records, records);
  now.set(metric::directory_bytes, shard.bytes());
  now.set(metric::directory_record_bytes, records > 0 ? shard.bytes() / records : 0);
  now.set(metric::directory_owners, options.replicas);
  const auto is_linked = [this](const auto& peer) {
    return peer.linked() && peer.self.id != options.self;
  };
  now.set(metric::links, cluster ? std::ranges::count_if(cluster->peers, is_linked) : 0);
  return now;
}

directory_report directory_state::report() const {
  directory_report now;
  if (!cluster)
    return now;
  for (const auto& member : cluster->view.members)
    if (const auto* digest = shard.digest_of(member.inc))
      for (const auto& range : *digest)
        now.records_of[member.name] += range.count;
  return now;
}

namespace {

using directory_pointer = directory_actor::stateful_pointer<directory_state>;

void give_on(directory_pointer self);

void give(directory_pointer self, directory::hand_over::order&& order) {
  auto& state = self->state;
  PEERCACHE_ASSERT(state.cluster && order.to != state.options.self);
  const auto* owner = state.cluster->find(order.to);
  auto settled = [self](std::uint64_t taken) {
    self->state.totals.add(metric::directory_handed_over_total, taken);
    if (!self->state.giving)
      return;
    self->state.giving->settled(taken);
    self->send(self, pump_atom_v, from_here{});
  };
  if (owner == nullptr || !owner->linked())
    return settled(0);
  self->request(owner->directory, state.options.hand_over_timeout, publish_atom_v,
                std::move(order.records))
      .then([settled](const std::string& outcomes) { settled(outcomes.size()); },
            [settled](const caf::error&) { settled(0); });
}

/// Sends the records that the hand-over gives out now. At the end of the hand-over, answers the
/// requests that wait for it.
void give_on(directory_pointer self) {
  auto& state = self->state;
  if (!state.giving)
    return;
  for (auto& order : state.giving->next(state.shard, self->clock().now()))
    give(self, std::move(order));
  if (!state.giving->done())
    return;
  auto records = state.giving->records();
  log::info("directory: gave {} records to their new owners", records);
  state.giving.reset();
  for (auto& waiting : std::exchange(state.given, {}))
    waiting.deliver(records);
}

caf::result<std::uint64_t> begin_to_give(directory_pointer self, bool leaving,
                                         std::uint32_t within_ms) {
  auto& state = self->state;
  const auto* own = state.cluster ? state.cluster->view.find(state.options.self) : nullptr;
  if (own == nullptr)
    return std::uint64_t{0};
  auto promise = self->make_response_promise<std::uint64_t>();
  state.given.push_back(promise);
  if (state.giving)
    return promise;
  auto members = state.cluster->view.members;
  std::erase_if(members, [&](const auto& m) { return m.id == state.options.self; });
  directory::hand_over::options options;
  options.self = state.options.self;
  options.replicas = state.options.replicas;
  options.leaving = leaving ? own->inc : incarnation{};
  options.until = self->clock().now() + std::chrono::milliseconds(within_ms);
  state.giving.emplace(options, state.cluster->ring, discovery::hash_ring(members));
  give_on(self);
  return promise;
}

/// Schedules a sweep if the batch has keys that this node does not own: a draining node gave them,
/// or a node with another view published them. If no later view gives this node those keys (a drain
/// may be taken back), only the sweep forgets them.
void sweep_later(directory_pointer self, const std::string& batch) {
  auto& state = self->state;
  if (state.sweep_is_due || !state.cluster)
    return;
  state.sweep_is_due =
      directory::has_foreign_keys(batch, [&](const page_key& key) { return state.owns(key); });
  if (state.sweep_is_due)
    self->delayed_send(self, state.options.grace, beat_atom_v, from_here{});
}

void forward(directory_pointer self, directory::hand_over::order&& order) {
  auto& state = self->state;
  const auto* owner = state.cluster->find(order.to);
  const auto bytes = order.records.size();
  if (owner == nullptr || !owner->linked() ||
      state.forwarded_bytes + bytes > state.options.forwarded_bytes_max)
    return;
  state.forwarded_bytes += bytes;
  auto done = [self, bytes] { self->state.forwarded_bytes -= bytes; };
  self->request(owner->directory, state.options.hand_over_timeout, withdraw_atom_v,
                std::move(order.records))
      .then([done](std::uint64_t) { done(); }, [done](const caf::error&) { done(); });
}

/// Passes withdrawals on to the new owners that may have been given the withdrawn records already.
void forward_withdrawals(directory_pointer self, const std::string& batch) {
  auto& state = self->state;
  if (!state.giving)
    return;
  PEERCACHE_ASSERT(state.cluster); // A hand-over needs a view.
  for (auto& order : state.giving->forward(batch))
    forward(self, std::move(order));
}

void sweep(directory_pointer self) {
  auto& state = self->state;
  state.sweep_is_due = false;
  // Keys that the last view took away, and records of nodes that it lacks, are kept for `grace`
  // after that view, however many views came shortly before it.
  if (self->clock().now() - state.changed_at < state.options.grace)
    return;
  state.forget_gone();
  state.forget_foreign_keys();
}

lost_report lost_of(directory_pointer self, const std::string& prefixes) {
  return self->state.lost.find(prefixes, self->clock().now());
}

} // namespace

directory_actor::behavior_type
run_directory(directory_actor::stateful_pointer<directory_state> self,
              const directory_options& options) {
  PEERCACHE_ASSERT(options.replicas >= 1 && options.replicas <= discovery::hash_ring::replicas_max);
  self->state.options = options;
  self->state.shard.set_locations_max(options.records_max);
  self->set_default_handler(caf::drop);
  auto& state = self->state;
  return {
      [self](publish_atom, const std::string& batch) {
        sweep_later(self, batch);
        return to_caf(self->state.publish(batch));
      },
      [self](publish_atom, const std::string& batch, std::uint64_t term, std::uint64_t version) {
        sweep_later(self, batch);
        return to_caf(self->state.publish(batch, term, version));
      },
      [self](withdraw_atom, const std::string& batch) {
        auto& state = self->state;
        forward_withdrawals(self, batch);
        state.totals.add(metric::directory_withdraws_total,
                         batch.size() / directory::wire::withdraw_record_bytes);
        return to_caf(directory::withdraw_batch(state.shard, batch));
      },
      [&state](lookup_atom, const std::string& keys) { return to_caf(state.look_up(keys)); },
      [&state](compare_atom, const std::string& comparison) {
        return to_caf(directory::compare_digests(state.shard, comparison));
      },
      [&state](list_atom, const std::string& request) {
        return to_caf(directory::list_records(state.shard, request));
      },
      [self](drain_atom, bool leaving, std::uint32_t within_ms, from_here) {
        return begin_to_give(self, leaving, within_ms);
      },
      [self](pump_atom, from_here) { give_on(self); },
      [&state](stats_atom) -> caf::result<metrics::samples, directory_report> {
        return {state.samples(), state.report()};
      },
      [self](lost_atom, const std::string& prefixes, from_here) { return lost_of(self, prefixes); },
      [self](topology_atom, const topology_ptr& next) {
        auto changed = !self->state.cluster || self->state.cluster->view != next->view;
        if (!self->state.adopt(next) || !changed)
          return;
        self->state.changed_at = self->clock().now();
        self->delayed_send(self, self->state.options.grace, beat_atom_v, from_here{});
      },
      [&state](leave_atom, const std::string& without, from_here) {
        if (auto view = discovery::decode_view(without))
          state.leave(*view);
      },
      [self](beat_atom, from_here) { sweep(self); },
  };
}

} // namespace peercache::actors
