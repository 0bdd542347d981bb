#include "actors/pool_actor.hpp"

#include "actors/pool_catch_up.hpp"
#include "actors/pool_publishing.hpp"
#include "actors/pool_repair.hpp"
#include "common/log.hpp"
#include "common/page_status.hpp"

#include <algorithm>

namespace peercache::actors {
namespace {

/// Where a page that goes is to be written first, room is made for what so many beats bring: one in
/// which it is asked for, and two in which the disk writes.
constexpr std::uint64_t demand_beats_ahead = 3;
/// For that, no more than one part of so many of the pool is given up.
constexpr std::uint64_t parts_ahead_max = 6;

} // namespace

bool pool_state::joined() const noexcept {
  return cluster && cluster->find(options.inc) != nullptr;
}

directory::page_location pool_state::location_of(const storage::resident_page& page) const {
  directory::page_location location;
  location.node = options.self;
  location.owner = options.inc;
  location.gen = page.gen;
  location.checksum = page.checksum;
  location.slot = page.slot;
  location.length_bytes = page.length_bytes;
  location.mirrored = mirrors.contains(page.slot);
  return location;
}

std::string pool_state::reserve(const std::string& lengths) {
  std::string slots;
  std::vector<storage::evicted> victims;
  auto count = record_count<std::uint32_t>(lengths);
  storage::page_pool::kept_elsewhere on_disk;
  if (disk.on() && mostly_on_disk())
    on_disk = [this](slot_id slot) { return disk.marks.contains(slot); };
  for (std::size_t i = 0; count && i < *count; ++i) {
    const auto length_bytes = record_at<std::uint32_t>(lengths, i);
    auto slot = pool->reserve(length_bytes, victims, on_disk);
    append_record(slots, slot ? *slot : no_slot);
    demand.add(length_bytes);
  }
  for (const auto& page : victims)
    disk.lose(page);
  withdraw(victims);
  return slots;
}

void pool_state::abandon(const std::string& slots) {
  auto count = record_count<slot_id>(slots);
  for (std::size_t i = 0; count && i < *count; ++i)
    pool->abandon(record_at<slot_id>(slots, i));
}

void pool_state::count_uses(const std::string& pages) {
  auto count = std::min(record_count<used_page>(pages).value_or(0), used_pages_max);
  for (std::size_t i = 0; i < count; ++i) {
    auto page = record_at<used_page>(pages, i);
    pool->count_use(page.slot, page.gen);
  }
}

std::string pool_state::remove(const std::string& keys) {
  std::string statuses;
  std::vector<storage::evicted> removed;
  auto count = record_count<page_key>(keys);
  for (std::size_t i = 0; count && i < *count; ++i) {
    auto page = pool->remove(record_at<page_key>(keys, i), storage::bytes_after::zeroed);
    if (page) {
      disk.forget(page->slot); // There too.
      removed.push_back(*page);
    }
    statuses.push_back(static_cast<char>(page ? page_status::hit : page_status::not_found));
  }
  withdraw(removed);
  return statuses;
}

void pool_state::withdraw(const std::vector<storage::evicted>& pages) {
  for (const auto& page : pages) {
    mirrors.remove(page.slot);
    if (disk.forget(page.slot)) {
      disk.add_record(page.key, page.gen, page.checksum, page.length_bytes);
      continue;
    }
    if (withdrawals.size() >= withdrawals_max) {
      ++withdrawals_dropped; // The record stays stale; its generation keeps readers safe.
      continue;
    }
    pending_withdrawal pending;
    pending.record = {page.key, options.inc, page.gen};
    withdrawals.push_back(pending);
  }
}

void pool_state::withdraw_all_of(const page_key& key, generation up_to) {
  if (withdrawals.size() < withdrawals_max)
    withdrawals.push_back({{key, options.inc, up_to, directory::tier::disk}, 0});
  else
    ++withdrawals_dropped;
}

void pool_state::evict_ahead() {
  std::vector<storage::evicted> victims;
  const auto wanted =
      disk.takes_pages() && !mostly_on_disk()
          ? std::min(demand_beats_ahead * demand.bytes(), pool->capacity_bytes() / parts_ahead_max)
          : 0;
  const auto look = [this](const storage::resident_page& page) {
    if (!mirrors.contains(page.slot)) // Its producer keeps it.
      disk.keep(page);
  };
  // Also with write-through: when its page was set, the queue to the disk may have been full.
  pool->evict_ahead(victims, look, wanted);
  withdraw(victims);
}

pool_report pool_state::report() const {
  auto stats = pool->stats();
  pool_report now;
  now.bytes_used = stats.used_bytes;
  now.bytes_capacity = stats.capacity_bytes;
  now.pages = stats.pages;
  now.filling = stats.filling;
  now.limbo = stats.limbo;
  now.puts = stats.stored;
  now.duplicates = stats.duplicates;
  now.evictions = stats.evictions;
  now.evicted_bytes = stats.evicted_bytes;
  now.adopted = stats.adopted;
  now.adopted_refused = adoption.refused;
  now.cleared = clearing.pages_in_all;
  now.unpublished = unpublished.size();
  now.republished = republished;
  now.mirrored = mirrored;
  now.mirrored_refused = mirrored_refused;
  now.mirrored_bytes = mirrors.bytes();
  const auto& repaired = repair.totals();
  now.repair_passes = repaired.passes;
  now.repair_bytes = repaired.bytes;
  now.repair_differing = repaired.differing_ranges;
  now.repair_published = repaired.published;
  now.repair_withdrawn = repaired.withdrawn;
  return now;
}

namespace {

/// Pages whose reads are counted in per beat, at most 16 granules looked at for each: a pool of 64
/// GiB is gone round in half a minute, a small one in a second. A victim's own reads are looked at
/// when it is chosen.
constexpr std::uint32_t folds_per_beat = 2048;

/// Between two messages of others.
constexpr std::uint64_t scrub_step_bytes = 1u << 20;

void scrub(pool_pointer self) {
  auto& state = self->state;
  if (!state.scrubbing && state.pool->scrub(scrub_step_bytes)) {
    state.scrubbing = true;
    self->send(self, scrub_atom_v);
  }
}

void beat(pool_pointer self) {
  auto& state = self->state;
  state.demand.beat();
  state.pool->reclaim();
  free_former_fills(state);
  scrub(self);
  state.pool->fold_uses(folds_per_beat);
  state.evict_ahead();
  decide_late_commits(self);
  send_withdrawals(self);
  catch_up(self);
  send_to_disk(self);
  publish_disk_records(self);
  publish_unpublished(self);
  repair_on(self);
  self->delayed_send(self, state.options.beat, beat_atom_v);
}

} // namespace

pool_actor::behavior_type run_pool(pool_pointer self, const pool_actor_options& options,
                                   std::unique_ptr<storage::page_pool> pool) {
  auto& state = self->state;
  state.options = options;
  state.pool = std::move(pool);
  state.republishing = rate_limit(options.republish_rate, options.republish_rate / 4);
  state.mirrors = mirror_share(options.mirrored_bytes_max);
  record_repair::options repair;
  repair.self = options.self;
  repair.inc = options.inc;
  repair.replicas = options.replicas;
  repair.bytes_per_second = options.repair_rate;
  repair.pause = options.repair_pause;
  repair.settling = options.repair_settling;
  state.repair = record_repair(repair);
  state.disk = pool_disk(options.disk, options.self, options.inc);
  state.adoption = {.options = options.adoption, .begun = self->clock().now()};
  self->delayed_send(self, options.beat, beat_atom_v);
  return {
      [self](reserve_atom, const std::string& lengths) { return self->state.reserve(lengths); },
      [self](commit_atom, const std::string& filled, std::uint8_t mode,
             const std::string& next_lengths) {
        return commit(self, filled, mode_of(mode), next_lengths);
      },
      [self](abandon_atom, const std::string& slots) { self->state.abandon(slots); },
      [self](used_atom, const std::string& pages) { self->state.count_uses(pages); },
      [self](remove_atom, const std::string& keys) {
        auto answer = remove_pages(self, keys);
        scrub(self);
        return answer;
      },
      [self](locate_atom, const std::string& keys) { return locate_pages(self->state, keys); },
      [self](restore_atom, const std::string& filled) { return restore_pages(self, filled); },
      [self](stored_atom, const std::string& pages) { note_stored(self, pages); },
      [self](gone_atom, std::uint64_t ticket, const std::string& keys) {
        note_gone(self, ticket, keys);
      },
      [self](walk_atom) { publish_disk(self, {}); },
      [self](walk_atom, std::uint64_t number) { continue_walk(self, number); },
      [self](hello_atom, const disk_writer_actor& disk) { self->state.disk.actor = disk; },
      [self](publish_atom) { publish_again(self); },
      [self](write_atom, std::uint32_t within_ms) { return write_out(self, within_ms); },
      [self](clear_atom) { return give_up_old(self); },
      [self](clear_atom, std::uint32_t from) { go_on_giving_up(self, from); },
      [self](drain_atom) { return withdraw_everything(self); },
      [self](stats_atom) { return self->state.report(); },
      [self](topology_atom, const topology_ptr& next) { adopt_topology(self, next); },
      [self](adopt_atom, const std::string& compared) {
        adopt_pages(self, compared);
        scrub(self);
      },
      [self](scrub_atom) {
        self->state.scrubbing = false;
        scrub(self);
      },
      [self](beat_atom) { beat(self); },
  };
}

} // namespace peercache::actors
