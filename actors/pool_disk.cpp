#include "actors/pool_disk.hpp"

#include "actors/owner_batches.hpp"
#include "actors/pool_catch_up.hpp"
#include "actors/pool_publishing.hpp"
#include "common/page_status.hpp"
#include "discovery/placement.hpp"
#include "storage/disk/disk_io.hpp"

#include <algorithm>
#include <array>
#include <unordered_set>

namespace peercache::actors {
namespace {

/// The disk lives in this process and answers for as long as the pool does.
constexpr auto disk_timeout = caf::infinite;
constexpr std::uint32_t walk_pages = 1024;

/// Whether what is on disk is what lies in the slot.
bool same_page(const storage::resident_page& held, const stored_page& on_disk) noexcept {
  return held.length_bytes == on_disk.length_bytes && held.checksum == on_disk.checksum;
}

} // namespace

void pool_disk::keep(const storage::resident_page& page) {
  if (!on() || marks.contains(page.slot))
    return;
  const auto bytes = storage::in_blocks(page.length_bytes);
  if (!options_.gate->enter(bytes))
    return;
  if (options_.slots.pin_if(page.slot, page.gen, page.key, page.length_bytes) != page_status::hit)
    return options_.gate->leave(bytes);
  append_record(kept_,
                kept_page{page.key, page.gen.value, page.checksum, page.slot, page.length_bytes});
}

bool pool_disk::keep_at_leisure(const storage::resident_page& page, std::uint64_t parts) {
  if (!options_.gate->has_room(storage::in_blocks(page.length_bytes), parts))
    return false;
  keep(page);
  return true;
}

void pool_disk::note_kept(slot_id slot) {
  marks.insert(slot);
  let_go.erase(slot);
}

void pool_disk::note_let_go(slot_id slot) {
  if (marks.erase(slot))
    let_go.insert(slot);
}

bool pool_disk::forget(slot_id slot) {
  let_go.erase(slot);
  return marks.erase(slot);
}

void pool_disk::lose(const storage::evicted& page) {
  if (on() && !marks.contains(page.slot) && options_.slots.pins(page.slot) == 0)
    options_.gate->count_skip(storage::write_skip::evicted);
}

void pool_disk::add_record(const page_key& key, generation gen, std::uint64_t checksum,
                           std::uint32_t length_bytes) {
  if (records.size() >= records_max) {
    missed = true; // Nobody finds the page until all of the disk is published again.
    return;
  }
  directory::page_location location;
  location.node = self_;
  location.owner = inc_;
  location.gen = gen;
  location.checksum = checksum;
  location.length_bytes = length_bytes;
  location.where = directory::tier::disk;
  records.push_back({key, location, directory::publish_mode::always});
}

void pool_disk::drop_records(const std::string& keys) {
  std::unordered_set<page_key> gone;
  for (std::size_t i = 0; i < record_count<page_key>(keys).value_or(0); ++i)
    gone.insert(record_at<page_key>(keys, i));
  std::erase_if(records, [&](const auto& record) { return gone.contains(record.key); });
}

void send_to_disk(pool_pointer self) {
  auto& disk = self->state.disk;
  if (auto pages = disk.take_kept(); !pages.empty())
    self->send(disk.actor, write_atom_v, std::move(pages));
}

// -- the directory

void publish_disk_records(pool_pointer self) {
  auto& state = self->state;
  auto& disk = state.disk;
  if (disk.publishing || !state.publishes())
    return;
  if (disk.records.empty() && disk.missed && !disk.walking.active) {
    disk.missed = false;
    return publish_disk(self, {});
  }
  if (disk.records.empty())
    return;
  auto sent = std::make_shared<std::vector<directory::publish_record>>();
  owner_batches batches{state.cluster->ring, state.options.replicas};
  while (!disk.records.empty() && sent->size() < unpublished_pages::chunk_pages) {
    batches.add(static_cast<std::uint32_t>(sent->size()), disk.records.front());
    sent->push_back(disk.records.front());
    disk.records.pop_front();
  }
  disk.publishing = true;
  publish(self, batches.take(), sent->size(), [self, sent](publication& published) {
    auto& own = self->state.disk;
    own.publishing = false;
    bool all_heard = true;
    for (std::size_t i = 0; i < sent->size(); ++i) {
      if (!published.unheard[i])
        continue;
      all_heard = false;
      // Those that an owner out of reach has not heard of leave room for others.
      if (own.records.size() < pool_disk::records_max / 4)
        own.records.push_back((*sent)[i]);
      else
        own.missed = true;
    }
    if (all_heard) // Otherwise the next beat tries again, not a hot loop.
      publish_disk_records(self);
  });
}

namespace {

void walk_on(pool_pointer self, std::uint64_t number);

/// Those pages of a piece of the walk that are not in memory and have new owners.
void take_piece(pool_pointer self, const std::string& pages) {
  auto& state = self->state;
  auto& disk = state.disk;
  std::array<node_id, discovery::hash_ring::replicas_max> fresh;
  const auto count = record_count<stored_page>(pages).value_or(0);
  for (std::size_t i = 0; i < count; ++i) {
    const auto page = record_at<stored_page>(pages, i);
    if (const auto held = state.pool->find(page.key)) {
      if (same_page(*held, page))
        disk.marks.insert(held->slot);
    } else if (discovery::new_owners(disk.walking.before, state.cluster->ring, page.key,
                                     state.options.replicas, fresh) > 0) {
      disk.add_record(page.key, {0}, page.checksum, page.length_bytes);
    }
  }
  publish_disk_records(self);
}

void walk_on(pool_pointer self, std::uint64_t number) {
  auto& disk = self->state.disk;
  // What is still to be published waits for the directory: no more than this piles up.
  if (disk.records.size() > pool_disk::records_max / 2) {
    self->delayed_send(self, self->state.options.beat, walk_atom_v, number);
    return;
  }
  self->request(disk.actor, disk_timeout, walk_atom_v, disk.walking.after, walk_pages)
      .then([self, number](const std::string& pages, std::uint64_t last) {
        auto& walking = self->state.disk.walking;
        if (!walking.active || walking.number != number)
          return;
        take_piece(self, pages);
        walking.after = last;
        walking.active = last != 0;
        if (walking.active)
          walk_on(self, number);
      });
}

} // namespace

void publish_disk(pool_pointer self, discovery::hash_ring before) {
  auto& state = self->state;
  auto& walking = state.disk.walking;
  if (!state.disk.on() || !state.publishes())
    return;
  // A walk that was not over knows of owners that the one before it had not reached.
  walking.before = walking.active ? discovery::hash_ring{} : std::move(before);
  walking.active = true;
  walking.after = 0;
  walk_on(self, ++walking.number);
}

void continue_walk(pool_pointer self, std::uint64_t number) {
  const auto& walking = self->state.disk.walking;
  if (walking.active && walking.number == number)
    walk_on(self, number);
}

// -- what the disk says

void note_stored(pool_pointer self, const std::string& pages) {
  auto& state = self->state;
  const auto count = record_count<stored_page>(pages).value_or(0);
  for (std::size_t i = 0; i < count; ++i) {
    const auto page = record_at<stored_page>(pages, i);
    const auto held = state.pool->find(page.key);
    if (!held)
      state.disk.add_record(page.key, {page.gen}, page.checksum, page.length_bytes);
    else if (same_page(*held, page))
      state.disk.note_kept(held->slot);
  }
  state.disk.stored += count;
  state.disk.catch_up.stored();
  publish_disk_records(self);
  catch_up(self);
}

void note_gone(pool_pointer self, std::uint64_t ticket, const std::string& keys) {
  auto& state = self->state;
  std::vector<directory::withdraw_record> records;
  const auto count = record_count<page_key>(keys).value_or(0);
  for (std::size_t i = 0; i < count; ++i) {
    const auto key = record_at<page_key>(keys, i);
    if (const auto held = state.pool->find(key))
      state.disk.note_let_go(held->slot);
    else
      records.push_back({key, state.options.inc, state.pool->newest(), directory::tier::disk});
  }
  withdraw_from_owners(self, records, [self, ticket] {
    if (ticket != 0)
      self->send(self->state.disk.actor, ack_atom_v, ticket);
  });
}

// -- what the promoter and the gateway ask

std::string locate_pages(const pool_state& state, const std::string& keys) {
  std::string answer;
  const auto count = record_count<page_key>(keys).value_or(0);
  for (std::size_t i = 0; i < count; ++i) {
    const auto held = state.pool->find(record_at<page_key>(keys, i));
    if (held) {
      const auto location = state.location_of(*held);
      directory::append_answer(answer, {&location, 1});
    } else {
      directory::append_answer(answer, {});
    }
  }
  return answer;
}

std::string restore_pages(pool_pointer self, const std::string& filled) {
  auto& state = self->state;
  const auto fills = fills_of(filled);
  for (const auto& page : fills)
    state.disk.note_read(page);
  std::vector<storage::commit_outcome> outcomes(fills.size());
  state.pool->commit(fills, outcomes, /*promoted=*/true);
  std::string keys;
  for (std::size_t i = 0; i < fills.size(); ++i) {
    append_record(keys, fills[i].key);
    if (outcomes[i].status == page_status::stored) {
      state.disk.marks.insert(outcomes[i].slot);
      state.unpublished.add_first(fills[i].key); // Somebody waits for it.
    }
  }
  state.evict_ahead();
  publish_unpublished(self);
  return locate_pages(state, keys);
}

caf::result<std::string> remove_pages(pool_pointer self, const std::string& keys) {
  auto& state = self->state;
  auto statuses = state.remove(keys);
  send_withdrawals(self);
  if (!state.disk.on())
    return statuses;
  send_to_disk(self); // What waits for the beat would be written after it was removed.
  auto promise = self->make_response_promise<std::string>();
  // A page that is set again before the disk has answered is a newer one, and stays.
  const auto up_to = state.pool->newest();
  self->request(state.disk.actor, disk_timeout, remove_atom_v, keys)
      .then(
          [self, promise, statuses, keys, up_to](const std::string& on_disk) mutable {
            for (std::size_t i = 0; i < statuses.size() && i < on_disk.size(); ++i) {
              if (static_cast<page_status>(on_disk[i]) != page_status::hit)
                continue;
              statuses[i] = on_disk[i];
              self->state.withdraw_all_of(record_at<page_key>(keys, i), up_to);
            }
            self->state.disk.drop_records(keys);
            send_withdrawals(self);
            promise.deliver(std::move(statuses));
          },
          [promise, asked = statuses.size()](const caf::error&) mutable {
            // The disk ends and may still have them.
            promise.deliver(std::string(asked, static_cast<char>(page_status::refused)));
          });
  return promise;
}

} // namespace peercache::actors
