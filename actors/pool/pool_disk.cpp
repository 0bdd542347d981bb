#include "actors/pool/pool_disk.hpp"

#include "actors/pool/pool_catch_up.hpp"
#include "actors/pool/pool_publishing.hpp"
#include "common/assert.hpp"
#include "common/page_status.hpp"
#include "storage/disk/io/disk_io.hpp"

namespace peercache::actors {
namespace {

/// Requests to the disk have no time-out: it lives in this process and answers for as long as the
/// pool does.
constexpr auto disk_timeout = caf::infinite;

} // namespace

void pool_disk::keep(const storage::resident_page& page) {
  if (!on() || marks_->kept(page.slot))
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
  PEERCACHE_ASSERT(on() && parts > 0);
  if (!options_.gate->has_room(storage::in_blocks(page.length_bytes), parts))
    return false;
  keep(page);
  return true;
}

void pool_disk::lose(const storage::evicted& page) {
  if (on() && !marks_->kept(page.slot) && options_.slots.pins(page.slot) == 0)
    options_.gate->count_skip(storage::write_skip::evicted);
}

void send_to_disk(pool_pointer self) {
  auto& disk = self->state.disk;
  if (auto pages = disk.take_kept(); !pages.empty()) {
    PEERCACHE_ASSERT(disk.actor); // Only the disk actor gives pins and room back.
    self->send(disk.actor, write_atom_v, std::move(pages), from_here{});
  }
}

void note_stored(pool_pointer self, const std::string& pages) {
  auto& state = self->state;
  const auto count = record_count<stored_page>(pages);
  PEERCACHE_ASSERT(count); // This node's disk packs whole records.
  state.publishing->stored(pages);
  state.disk.stored += *count;
  state.disk.catch_up.stored();
  carry_out_orders(self);
  catch_up(self);
}

// -- requests of the promoter and the gateway

std::string locate_pages(const pool_state& state, const std::string& keys) {
  std::string answer;
  const auto count = record_count<page_key>(keys).value_or(0);
  for (std::size_t i = 0; i < count; ++i) {
    const auto held = state.pool->find(record_at<page_key>(keys, i));
    if (held) {
      const auto location = state.publishing->location_of(*held);
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
  state.evict_ahead(
      self->clock().now()); // Eviction comes first, so that it does not take the restored pages.
  state.publishing->restore(fills, self->clock().now());
  carry_out_orders(self);
  std::string keys;
  for (const auto& fill : fills)
    append_record(keys, fill.key);
  return locate_pages(state, keys);
}

namespace {

/// Answers a removal when the owners have withdrawn its pages, so that look-ups no longer find
/// them, or when the time for that has passed.
void answer_when_withdrawn(pool_pointer self, pool_state::open_removal removal) {
  auto& state = self->state;
  const auto wait = state.publishing->when_withdrawn(self->clock().now());
  const bool is_new = state.removing.emplace(wait, std::move(removal)).second;
  PEERCACHE_ASSERT(is_new);
  stir(self); // A beat ends the wait for owners that do not answer.
  carry_out_orders(self);
}

} // namespace

caf::result<std::string> remove_pages(pool_pointer self, const std::string& keys) {
  auto& state = self->state;
  auto statuses = state.publishing->remove(keys);
  state.lost.note_removed(keys, statuses, self->clock().now());
  carry_out_orders(self);
  auto promise = self->make_response_promise<std::string>();
  if (!state.disk.on()) {
    answer_when_withdrawn(self, {promise, std::move(statuses)});
    return promise;
  }
  send_to_disk(self); // Queued pages are written before the removal, never after it.
  self->request(state.disk.actor, disk_timeout, remove_atom_v, keys, from_here{})
      .then(
          [self, promise, statuses, keys](const std::string& had) mutable {
            // Pool and disk give one status per key.
            PEERCACHE_ASSERT(had.size() == statuses.size());
            for (std::size_t i = 0; i < statuses.size(); ++i)
              if (static_cast<page_status>(had[i]) == page_status::hit)
                statuses[i] = had[i];
            self->state.lost.note_removed(keys, had, self->clock().now());
            self->state.publishing->removed_on_disk(keys, had);
            carry_out_orders(self);
            answer_when_withdrawn(self, {promise, std::move(statuses)});
          },
          [promise, asked = statuses.size()](const caf::error&) mutable {
            // The disk is ending and may still have the pages, so the removal is refused.
            promise.deliver(std::string(asked, static_cast<char>(page_status::refused)));
          });
  return promise;
}

} // namespace peercache::actors
