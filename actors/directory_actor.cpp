#include "actors/directory_actor.hpp"

#include "actors/errors.hpp"
#include "common/log.hpp"
#include "directory/shard_batch.hpp"
#include "discovery/view_codec.hpp"

#include <algorithm>
#include <vector>

namespace peercache::actors {

bool directory_state::adopt(const topology_ptr& next) {
  if (next->view.stamp() <= left_at)
    return false;
  cluster = next;
  std::vector<incarnation> living;
  living.reserve(next->view.members.size());
  for (const auto& member : next->view.members)
    living.push_back(member.inc);
  if (auto dropped = shard.set_members(living); dropped > 0)
    log::info("directory: forgot {} records of nodes that are gone", dropped);
  return true;
}

void directory_state::leave(const discovery::view& without) {
  left_at = std::max(left_at, without.stamp());
  if (auto dropped = shard.set_members({}); dropped > 0)
    log::info("directory: forgot all {} records, the cluster goes on without this node", dropped);
}

void directory_state::forget_foreign_keys() {
  if (!cluster || cluster->find(options.self) == nullptr)
    return;
  auto dropped = shard.retain([this](const page_key& key) {
    return cluster->ring.owns(options.self, key, options.replicas);
  });
  if (dropped > 0)
    log::info("directory: forgot {} records that other nodes own now", dropped);
}

directory_report directory_state::report() const {
  auto now = totals;
  now.records = shard.locations();
  now.bytes = shard.bytes();
  return now;
}

directory_actor::behavior_type
run_directory(directory_actor::stateful_pointer<directory_state> self,
              const directory_options& options) {
  self->state.options = options;
  self->set_default_handler(caf::drop);
  auto& state = self->state;
  return {
      [&state](publish_atom, const std::string& batch) {
        state.totals.publishes += batch.size() / directory::wire::publish_record_bytes;
        return to_caf(directory::publish_batch(state.shard, batch));
      },
      [&state](withdraw_atom, const std::string& batch) {
        state.totals.withdraws += batch.size() / directory::wire::withdraw_record_bytes;
        return to_caf(directory::withdraw_batch(state.shard, batch));
      },
      [&state](lookup_atom, const std::string& keys) {
        state.totals.lookups += keys.size() / directory::wire::key_bytes;
        return to_caf(directory::lookup_batch(state.shard, keys));
      },
      [&state](stats_atom) { return state.report(); },
      [self](topology_atom, const topology_ptr& next) {
        auto changed = !self->state.cluster || self->state.cluster->view != next->view;
        if (self->state.adopt(next) && changed)
          self->delayed_send(self, self->state.options.grace, beat_atom_v);
      },
      [&state](leave_atom, const std::string& without) {
        if (auto view = discovery::decode_view(without))
          state.leave(*view);
      },
      [&state](beat_atom) { state.forget_foreign_keys(); },
  };
}

} // namespace peercache::actors
