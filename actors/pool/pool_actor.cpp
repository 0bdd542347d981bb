#include "actors/pool/pool_actor.hpp"

#include "actors/pool/pool_catch_up.hpp"
#include "actors/pool/pool_publishing.hpp"
#include "actors/pool/pool_reserve.hpp"
#include "common/assert.hpp"
#include "common/limits.hpp"
#include "common/log.hpp"

#include <algorithm>

namespace peercache::actors {

using metrics::metric;

namespace {

/// When pages must be written before they are evicted, room is made for this many beats of demand:
/// one beat in which the room is asked for, and two in which the disk writes.
constexpr std::uint64_t demand_beats_ahead = 3;
/// Eviction ahead of demand wants at most one part in this many of the pool to be free.
constexpr std::uint64_t parts_ahead_max = 6;
/// How long beats stay frequent after there was last something to do.
constexpr std::chrono::seconds busy_for{1};

} // namespace

std::string pool_state::hold(const std::string& pages, storage::holder_tag who,
                             std::chrono::milliseconds duration,
                             storage::hold_table::time_point now) {
  pool->tell_time(now);
  std::string outcomes;
  const auto count =
      std::min<std::size_t>(record_count<used_page>(pages).value_or(0), limits::batch_pages_max);
  for (std::size_t i = 0; i < count; ++i) {
    const auto page = record_at<used_page>(pages, i);
    auto outcome = storage::hold_outcome::gone;
    if (duration.count() == 0)
      pool->release_hold(page.slot, page.gen, who);
    else
      outcome = pool->hold(page.slot, page.gen, who, duration);
    outcomes += static_cast<char>(outcome);
  }
  return outcomes;
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

void pool_state::evict_ahead(lost_pages::time_point now) {
  pool->tell_time(now);
  const auto wanted =
      disk.takes_pages() && !mostly_on_disk()
          ? std::min(demand_beats_ahead * demand.bytes(), pool->capacity_bytes() / parts_ahead_max)
          : 0;
  // Victims are written with write-through as well: the disk's queue may have been full when the
  // page was set.
  const auto victims = publishing->evict_ahead(
      [this](const storage::resident_page& page) { disk.keep(page); }, wanted);
  for (const auto& page : victims)
    lost.note(page.key, page_loss::evicted, now);
}

page_census pool_state::census(lost_pages::time_point now) {
  survey.tell_time(now);
  const auto counted = [](const page_key& key, std::uint64_t bytes) {
    counted_page page;
    page.digest.assign(reinterpret_cast<const char*>(key.bytes.data()), key.bytes.size());
    page.bytes = bytes;
    return page;
  };
  page_census said;
  said.age_ms = static_cast<std::uint64_t>(survey.age().count());
  said.window_ms = static_cast<std::uint64_t>(survey.counted_for().count());
  for (const auto& one : survey.hottest()) {
    auto& page = said.hot.emplace_back(counted(one.key, one.bytes));
    page.reads = one.reads;
    page.reads_over = one.over;
  }
  for (const auto& one : survey.largest())
    said.big.push_back(counted(one.key, one.bytes));
  for (const auto& one : survey.spaces()) {
    auto& space = said.spaces.emplace_back();
    space.space = one.space.value;
    space.pages = one.pages;
    space.bytes = one.bytes;
  }
  return said;
}

bool pool_state::rests(caf::actor_clock::time_point now) const {
  return now >= busy_until && !scrubbing && publishing->idle() && !publishing->comparing() &&
         committing.empty() && reserving.empty() && removing.empty() && leaving.empty() &&
         (!disk.on() || disk.idle()) && !has_to_catch_up(*this, now);
}

void stir(pool_pointer self) {
  auto& state = self->state;
  state.busy_until = self->clock().now() + busy_for;
  state.beats.plan(self, state.options.beat);
}

metrics::samples pool_state::samples() const {
  metrics::samples now;
  const auto stats = pool->stats();
  now.set(metric::pool_bytes_used, stats.used_bytes);
  now.set(metric::pool_bytes_capacity, stats.capacity_bytes);
  now.set(metric::pool_pages, stats.pages);
  now.set(metric::pool_pages_filling, stats.filling);
  now.set(metric::pool_puts_total, stats.stored);
  now.set(metric::evictions_total, stats.evictions);
  now.set(metric::evicted_bytes_total, stats.evicted_bytes);
  now.set(metric::adopted_pages_total, stats.adopted);
  now.set(metric::adopted_refused_total, adoption.refused);
  now.set(metric::cleared_pages_total, {"memory"}, clearing.pages_in_all);
  const auto& told = publishing->totals();
  now.set(metric::directory_republished_total, told.republished);
  now.set(metric::mirrored_pages_total, {"mirrored"}, told.mirrored);
  now.set(metric::mirrored_pages_total, {"refused"}, told.mirrored_refused);
  const auto held = pool->held();
  now.set(metric::held_pages, held.pages);
  now.set(metric::held_bytes, held.granules * limits::granule_bytes);
  now.set(metric::holds_expired_total, stats.holds_expired);
  now.set(metric::mirrored_bytes, publishing->mirrors().bytes());
  const auto& repaired = publishing->repaired();
  now.set(metric::repair_passes_total, repaired.passes);
  now.set(metric::repair_bytes_total, repaired.bytes);
  now.set(metric::repair_differing_ranges_total, repaired.differing_ranges);
  now.set(metric::repair_records_total, {"published"}, repaired.published);
  now.set(metric::repair_records_total, {"withdrawn"}, repaired.withdrawn);
  return now;
}

namespace {

/// Bytes that the pool zeroes before it handles the next message.
constexpr std::uint64_t scrub_step_bytes = 1u << 20;

/// Pages per beat whose counted reads are passed on to the eviction policy; at most 16 granules are
/// looked at for each page. So a pool of 64 GiB is gone round in half a minute, a small pool in a
/// second; ten times slower while no beat finds a read. The reads of a victim are passed on, too,
/// when it is chosen.
constexpr std::uint32_t folds_per_beat = 2048;

std::string hold_pages(pool_pointer self, const std::string& pages, std::uint32_t who,
                       std::uint32_t for_ms) {
  return self->state.hold(pages, {who}, std::chrono::milliseconds(for_ms), self->clock().now());
}

void scrub_on(pool_pointer self) {
  PEERCACHE_ASSERT(self->state.scrubbing); // `scrub` has sent the message that is being handled.
  self->state.scrubbing = false;
  scrub(self);
}

void disk_gave_up(pool_pointer self, std::uint64_t ticket, const std::string& keys) {
  self->state.lost.note(keys, page_loss::disk_evicted, self->clock().now());
  self->state.publishing->gone(ticket, keys);
  carry_out_orders(self);
}

void beat(pool_pointer self) {
  auto& state = self->state;
  const auto now = self->clock().now();
  if (!state.beats.due(now))
    return;
  state.pool->tell_time(now);
  state.demand.beat();
  state.pool->reclaim();
  free_former_fills(state);
  state.survey.tell_time(now);
  const auto uses = state.pool->stats().uses;
  state.pool->fold_uses(folds_per_beat, &state.survey);
  if (state.pool->stats().uses != uses)
    state.busy_until = now + busy_for; // Readers send no message: only use counts show reads.
  state.evict_ahead(now);
  scrub(self);
  catch_up(self);
  state.publishing->tick(now);
  state.publishing->compare_on(now);
  carry_out_orders(self);
  send_to_disk(self);
  state.beats.plan(self, state.rests(now) ? std::max(link::rest_period, state.options.beat)
                                          : state.options.beat);
}

directory::publisher_options publisher_options_of(const pool_actor_options& options) {
  directory::publisher_options made;
  made.self = options.self;
  made.inc = options.inc;
  made.replicas = options.replicas;
  made.directory_timeout = options.directory_timeout;
  made.republish_rate = options.republish_rate;
  made.mirrored_bytes_max = options.mirrored_bytes_max;
  made.has_disk = options.disk.gate != nullptr;
  made.write_through = options.disk.write_through;
  made.repair.bytes_per_second = options.repair_rate;
  made.repair.pause = options.repair_pause;
  made.repair.settling = options.repair_settling;
  return made;
}

void publish_disk(pool_pointer self) {
  self->state.publishing->publish_disk();
  carry_out_orders(self);
}

void abandon_slots(pool_pointer self, const std::string& slots) {
  self->state.abandon(slots);
  scrub(self);
}

/// Counts pages that other hosts READ. Returns an empty answer, which says that all of them are
/// counted.
std::string count_uses(pool_pointer self, const std::string& pages) {
  self->state.count_uses(pages);
  return {};
}

} // namespace

void scrub(pool_pointer self) {
  auto& state = self->state;
  if (!state.scrubbing && state.pool->scrub(scrub_step_bytes)) {
    state.scrubbing = true;
    self->send(self, scrub_atom_v, from_here{});
  }
}

void pool_state::begin(const pool_actor_options& chosen,
                       std::unique_ptr<storage::page_pool> pages) {
  options = chosen;
  pool = std::move(pages);
  publishing = std::make_unique<directory::publisher>(publisher_options_of(options), *pool);
  disk = pool_disk(options.disk, publishing->marks());
  if (disk.on())
    pool->know_kept([&marks = publishing->marks()](slot_id slot) { return marks.kept(slot); });
}

pool_actor::behavior_type run_pool(pool_pointer self, const pool_actor_options& options,
                                   std::unique_ptr<storage::page_pool> pool) {
  PEERCACHE_ASSERT(pool != nullptr);
  self->state.begin(options, std::move(pool));
  self->state.adoption = {.options = options.adoption, .begun = self->clock().now()};
  self->set_default_handler(caf::drop);
  self->state.beats.plan(self, options.beat);
  return {
      [self](reserve_atom, const std::string& lengths, from_here) {
        return reserve_slots(self, lengths);
      },
      [self](reserve_atom, from_here) { reserve_on(self); },
      [self](commit_atom, const std::string& filled, std::uint8_t mode,
             const std::string& next_lengths,
             from_here) { return commit(self, filled, mode_of(mode), next_lengths); },
      [self](abandon_atom, const std::string& slots, from_here) { abandon_slots(self, slots); },
      [self](used_atom, const std::string& pages, from_here) { return count_uses(self, pages); },
      [self](hold_atom, const std::string& pages, std::uint32_t who, std::uint32_t for_ms,
             from_here) { return hold_pages(self, pages, who, for_ms); },
      [self](remove_atom, const std::string& keys, from_here) { return remove_pages(self, keys); },
      [self](locate_atom, const std::string& keys, from_here) {
        return locate_pages(self->state, keys);
      },
      [self](restore_atom, const std::string& filled, from_here) {
        return restore_pages(self, filled);
      },
      [self](stored_atom, const std::string& pages, from_here) { note_stored(self, pages); },
      [self](gone_atom, std::uint64_t ticket, const std::string& keys, from_here) {
        disk_gave_up(self, ticket, keys);
      },
      [self](walk_atom, from_here) { publish_disk(self); },
      [self](hello_atom, const disk_actor& disk, from_here) { self->state.disk.actor = disk; },
      [self](publish_atom, from_here) {
        self->state.publishing->publish_again(self->clock().now());
        carry_out_orders(self);
      },
      [self](write_atom, std::uint32_t within_ms, from_here) { return write_out(self, within_ms); },
      [self](clear_atom, from_here) { return give_up_old(self); },
      [self](clear_atom, std::uint32_t from, from_here) { go_on_giving_up(self, from); },
      [self](withdraw_atom, from_here) { return withdraw_everything(self); },
      [self](lost_atom, const std::string& prefixes, from_here) {
        return self->state.lost.find(prefixes, self->clock().now());
      },
      [self](census_atom, from_here) { return self->state.census(self->clock().now()); },
      [self](stats_atom) { return self->state.samples(); },
      [self](topology_atom, const topology_ptr& next) { adopt_topology(self, next); },
      [self](adopt_atom, const std::string& compared, from_here) { adopt_pages(self, compared); },
      [self](scrub_atom, from_here) { scrub_on(self); },
      [self](beat_atom, from_here) { beat(self); },
  };
}

} // namespace peercache::actors
