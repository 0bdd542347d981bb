#include "actors/pool_repair.hpp"

#include "actors/owner_batches.hpp"
#include "actors/pool_publishing.hpp"
#include "actors/protocol/disk_wire.hpp"

#include <algorithm>

namespace peercache::actors {
namespace {

/// Granules of the pool, and pages of the disk, that one step looks at.
constexpr std::uint32_t granules_per_step = 16384;
constexpr std::uint32_t disk_pages_per_step = 1024;

void take_pool_pages(pool_pointer self, std::uint64_t place) {
  auto& state = self->state;
  std::vector<held_page> held;
  auto next = state.pool->walk(static_cast<std::uint32_t>(place), granules_per_step,
                               [&](const storage::resident_page& page) {
                                 held.push_back({page.key, page.gen, directory::tier::memory,
                                                 page.length_bytes, page.checksum});
                               });
  state.repair.walked(held, next);
}

/// Those that are in memory too are known as such.
void take_disk_pages(pool_state& state, const std::string& pages, std::uint64_t next) {
  std::vector<held_page> held;
  const auto count = record_count<stored_page>(pages).value_or(0);
  for (std::size_t i = 0; i < count; ++i) {
    const auto page = record_at<stored_page>(pages, i);
    if (!state.pool->find(page.key))
      held.push_back({page.key, {0}, directory::tier::disk, page.length_bytes, page.checksum});
  }
  state.repair.walked(held, next);
}

void carry_out(pool_pointer self, const record_repair::walk_pages& order) {
  auto& state = self->state;
  if (!order.on_disk)
    return take_pool_pages(self, order.place);
  if (!state.disk.on())
    return state.repair.walked({}, 0);
  if (order.place == 0)
    state.repair_after = {};
  self->request(state.disk.actor, caf::infinite, walk_atom_v, state.repair_after,
                disk_pages_per_step)
      .then(
          [self](const std::string& pages, const decltype(pool_disk::walk::after)& last) {
            const bool more = last != decltype(pool_disk::walk::after){};
            self->state.repair_after = last;
            take_disk_pages(self->state, pages, more ? 1 : 0);
          },
          [self](const caf::error&) { self->state.repair.failed(); });
}

/// Null, and the owner left for the next pass, when it is out of reach.
const peer* reach(pool_pointer self, node_id owner) {
  const auto* found = self->state.cluster->find(owner);
  if (found != nullptr && found->linked())
    return found;
  self->state.repair.failed();
  return nullptr;
}

void carry_out(pool_pointer self, const record_repair::compare_with& order) {
  if (const auto* owner = reach(self, order.owner))
    self->request(owner->directory, self->state.options.directory_timeout, compare_atom_v,
                  order.comparison)
        .then([self](std::uint64_t differing) { self->state.repair.compared(differing); },
              [self](const caf::error&) { self->state.repair.failed(); });
}

void carry_out(pool_pointer self, const record_repair::list_of& order) {
  if (const auto* owner = reach(self, order.owner))
    self->request(owner->directory, self->state.options.directory_timeout, list_atom_v,
                  order.request)
        .then([self](const std::string& answer) { self->state.repair.listed(answer); },
              [self](const caf::error&) { self->state.repair.failed(); });
}

/// What has left memory since it was collected is not published, and what has come back is not
/// withdrawn.
void carry_out(pool_pointer self, const record_repair::repair_owner& order) {
  auto& state = self->state;
  for (const auto& page : order.publish) {
    if (page.where == directory::tier::disk)
      state.disk.add_record(page.key, page.gen, page.checksum, page.length_bytes);
    else
      state.unpublished.add({page.key, order.owner});
  }
  owner_batches batches{state.cluster->ring, state.options.replicas};
  for (const auto& record : order.withdraw) {
    const auto held = state.pool->find(record.key);
    if (!held || held->gen > record.gen)
      batches.add_to(order.owner, 0, record);
  }
  for (auto& batch : batches.take())
    if (const auto* owner = state.cluster->find(batch.owner); owner != nullptr && owner->linked())
      caf::anon_send(owner->directory, withdraw_atom_v, std::move(batch.records));
  publish_unpublished(self);
  publish_disk_records(self);
}

} // namespace

void repair_on(pool_pointer self) {
  auto& state = self->state;
  // What is on its way to the directory is no difference worth looking into.
  if (!state.publishes() || !state.unpublished.empty() || !state.disk.records.empty())
    return;
  auto next = state.repair.tick(self->clock().now(), state.pool->newest());
  std::visit(
      [self](const auto& order) {
        if constexpr (!std::is_same_v<std::decay_t<decltype(order)>, record_repair::nothing>)
          carry_out(self, order);
      },
      next);
}

void repair_follow(pool_pointer self) {
  auto& state = self->state;
  std::vector<node_id> owners;
  for (const auto& member : state.cluster->view.members)
    if (!member.draining)
      owners.push_back(member.id);
  state.repair.follow(state.cluster->ring, std::move(owners), self->clock().now());
}

} // namespace peercache::actors
