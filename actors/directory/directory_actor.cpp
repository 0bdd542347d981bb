#include "actors/directory/directory_actor.hpp"

#include "actors/directory/errors.hpp"
#include "common/assert.hpp"
#include "common/log.hpp"
#include "directory/shard_batch.hpp"
#include "directory/shard_repair.hpp"
#include "discovery/view_codec.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace peercache::actors {

using metrics::metric;

std::shared_ptr<shared_shard> make_shard(const directory_options& options) {
  directory::member_shard::options own;
  own.self = options.self;
  own.replicas = options.replicas;
  own.records_max = options.records_max;
  own.file = options.file;
  own.grace = options.grace;
  own.epochs = options.epochs;
  return std::make_shared<shared_shard>(own);
}

void tell_directory(const directory_actor& keeper, shared_shard& shard, const topology_ptr& next) {
  shard.announce();
  caf::anon_send(keeper, topology_atom_v, next);
}

void tell_directory_to_leave(const directory_actor& keeper, shared_shard& shard,
                             const discovery::view& without) {
  auto view = discovery::encode_view(without);
  shard.announce();
  caf::anon_send(keeper, leave_atom_v, std::move(view), from_here{});
}

void directory_state::begin(const directory_options& chosen, std::shared_ptr<shared_shard> own) {
  PEERCACHE_ASSERT(own);
  options = chosen;
  shard = std::move(own);
}

directory_state::~directory_state() {
  if (shard)
    shard->end();
}

bool directory_state::adopt(const topology_ptr& next, caf::actor_clock::time_point now) {
  using taken = directory::member_shard::taken;
  PEERCACHE_ASSERT(next);
  const auto own = shard->lock();
  const auto how = own->follow({{next, &next->view}, {next, &next->ring}}, now);
  if (how == taken::no)
    return false;
  cluster = next;
  std::vector<incarnation> away;
  for (const auto& peer : next->peers)
    if (peer.tried && !peer.linked())
      away.push_back(peer.self.inc);
  own->records().set_out_of_reach(away);
  return how == taken::anew;
}

void directory_state::leave(const discovery::view& without) {
  if (auto dropped = shard->lock()->leave(without.stamp()); dropped > 0)
    log::info("directory: forgot all {} records, the cluster goes on without this node", dropped);
}

void directory_state::forget_old() {
  if (const auto old = shard->lock()->forget_old(); old > 0)
    log::info("directory: forgot {} records of pages that were cleared", old);
}

bool directory_state::sweep(caf::actor_clock::time_point now) {
  directory::member_shard::swept slice;
  {
    const auto own = shard->lock();
    slice = own->sweep(now, [&](const page_key& key) {
      lost.note(key, page_loss::holder_gone, own->changed_at());
    });
  }
  swept.gone += slice.gone;
  swept.foreign += slice.foreign;
  if (slice.more)
    return true;
  const auto dropped = std::exchange(swept, {});
  if (dropped.gone > 0)
    log::info("directory: forgot {} records of nodes that are gone", dropped.gone);
  if (dropped.foreign > 0)
    log::info("directory: forgot {} records that other nodes own now", dropped.foreign);
  return false;
}

result<std::string> directory_state::publish(std::string_view batch,
                                             const directory::view_number& known) {
  const auto own = shard->lock();
  if (!own->is_behind(known))
    totals.add(metric::directory_publishes_total,
               batch.size() / directory::wire::publish_record_bytes);
  return own->publish(batch, known);
}

metrics::samples directory_state::samples() const {
  auto now = totals;
  const auto asked = shard->counted();
  now.set(metric::directory_lookups_total, asked.lookups);
  now.set(metric::directory_foreign_lookups_total, asked.foreign);
  now.add(metric::directory_publishes_total, asked.published);
  now.add(metric::directory_withdraws_total, asked.withdrawn);
  std::uint64_t records = 0;
  std::uint64_t bytes = 0;
  {
    const auto own = shard->lock();
    records = own->records().locations();
    bytes = own->records().bytes();
  }
  now.set(metric::directory_records, records);
  now.set(metric::directory_bytes, bytes);
  now.set(metric::directory_record_bytes, records > 0 ? bytes / records : 0);
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
  const auto own = shard->lock();
  for (const auto& member : cluster->view.members)
    if (const auto* digest = own->records().digest_of(member.inc))
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
  const auto count = order.records.size() / directory::wire::publish_record_bytes;
  auto failed = [self, count] {
    {
      const auto own = self->state.shard->lock();
      if (!own->gives())
        return;
      own->not_given(count);
    }
    self->send(self, pump_atom_v, from_here{});
  };
  auto answered = [self](const std::string& outcomes) {
    {
      const auto own = self->state.shard->lock();
      if (!own->gives())
        return;
      self->state.totals.add(metric::directory_handed_over_total, own->given(outcomes));
    }
    self->send(self, pump_atom_v, from_here{});
  };
  if (owner == nullptr || !owner->linked())
    return failed();
  self->request(owner->directory, state.options.hand_over_timeout, publish_atom_v,
                std::move(order.records))
      .then(answered, [failed](const caf::error&) { failed(); });
}

/// Sends the shard's records to the nodes that will own them, as many as may be under way now.
void give_on(directory_pointer self) {
  const auto& shard = self->state.shard;
  auto orders = shard->lock()->give(self->clock().now());
  for (auto& order : orders)
    give(self, std::move(order));
  if (const auto came_to = shard->lock()->end_giving())
    log::log(came_to->left == 0 ? log::level::info : log::level::warn,
             "directory: gave {} records to their new owners, {} are left", came_to->given,
             came_to->left);
}

caf::result<drain_report> begin_to_give(directory_pointer self, bool leaving,
                                        std::uint32_t within_ms) {
  auto promise = self->make_response_promise<drain_report>();
  const auto until = self->clock().now() + std::chrono::milliseconds(within_ms);
  using afterwards = directory::member_shard::afterwards;
  self->state.shard->lock()->begin_to_give(
      leaving ? afterwards::leaves : afterwards::drains, until,
      [promise](const directory::handed_over& came_to) mutable {
        drain_report told;
        told.given = came_to.given;
        told.left = came_to.left;
        promise.deliver(std::move(told));
      });
  give_on(self);
  return promise;
}

/// Publishes a batch, and schedules a sweep if it makes one due. @param known the sender's view;
/// zero: not said
result<std::string> publish(directory_pointer self, const std::string& batch,
                            const directory::view_number& known = {}) {
  auto& state = self->state;
  if (state.shard->lock()->makes_sweep_due(batch))
    self->delayed_send(self, state.options.grace, beat_atom_v, from_here{});
  return state.publish(batch, known);
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

result<std::uint64_t> withdraw(directory_pointer self, const std::string& batch) {
  auto& state = self->state;
  auto orders = state.shard->lock()->forward(batch);
  for (auto& order : orders)
    forward(self, std::move(order));
  state.totals.add(metric::directory_withdraws_total,
                   batch.size() / directory::wire::withdraw_record_bytes);
  return directory::withdraw_batch(state.shard->lock()->records(), batch);
}

lost_report lost_of(directory_pointer self, const std::string& prefixes) {
  return self->state.lost.find(prefixes, self->clock().now());
}

} // namespace

directory_actor::behavior_type
run_directory(directory_actor::stateful_pointer<directory_state> self,
              const directory_options& options, std::shared_ptr<shared_shard> shard) {
  PEERCACHE_ASSERT(options.replicas >= 1 && options.replicas <= discovery::hash_ring::replicas_max);
  self->state.begin(options, std::move(shard));
  self->set_default_handler(caf::drop);
  auto& state = self->state;
  return {
      [self](publish_atom, const std::string& batch) { return to_caf(publish(self, batch)); },
      [self](publish_atom, const std::string& batch, std::uint64_t term, std::uint64_t version) {
        return to_caf(publish(self, batch, {term, version}));
      },
      [self](withdraw_atom, const std::string& batch) { return to_caf(withdraw(self, batch)); },
      [&state](lookup_atom, const std::string& keys) { return to_caf(state.shard->look_up(keys)); },
      [&state](compare_atom, const std::string& comparison) {
        return to_caf(directory::compare_digests(state.shard->lock()->records(), comparison));
      },
      [&state](list_atom, const std::string& request) {
        return to_caf(directory::list_records(state.shard->lock()->records(), request));
      },
      [self](give_atom, bool leaving, std::uint32_t within_ms, from_here) {
        return begin_to_give(self, leaving, within_ms);
      },
      [self](pump_atom, from_here) { give_on(self); },
      [&state](stats_atom) -> caf::result<metrics::samples, directory_report> {
        return {state.samples(), state.report()};
      },
      [self](lost_atom, const std::string& prefixes, from_here) { return lost_of(self, prefixes); },
      [self](topology_atom, const topology_ptr& next) {
        if (self->state.adopt(next, self->clock().now()))
          self->delayed_send(self, self->state.options.grace, beat_atom_v, from_here{});
        self->state.shard->heard();
      },
      [&state](leave_atom, const std::string& without, from_here) {
        if (auto view = discovery::decode_view(without))
          state.leave(*view);
        state.shard->heard();
      },
      [&state](clear_atom, from_here) { state.forget_old(); },
      [self](beat_atom, from_here) {
        // Messages that came meanwhile get in between two slices.
        if (self->state.sweep(self->clock().now()))
          self->send(self, beat_atom_v, from_here{});
      },
  };
}

} // namespace peercache::actors
