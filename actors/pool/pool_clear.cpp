#include "actors/pool/pool_clear.hpp"

#include "actors/pool/pool_actor.hpp"
#include "actors/pool/pool_publishing.hpp"
#include "common/assert.hpp"
#include "common/log.hpp"

#include <string>
#include <utility>

namespace peercache::actors {
namespace {

/// Granules that one message of the walk looks at: 128 MiB of a pool, some milliseconds when all
/// pages there are old.
constexpr std::uint32_t granules_at_once = 1u << 15;

void end_walk(pool_pointer self) {
  auto& state = self->state;
  auto& clearing = state.clearing;
  // A walk always has a caller that waits for its end.
  PEERCACHE_ASSERT(clearing.walking && !clearing.waiting.empty());
  if (clearing.pages != 0)
    log::info("clear: {} pages given up", clearing.pages);
  // Old pages on disk: their records that are still to be published are dropped, and the disk's
  // thread is told to forget the pages.
  state.publishing->drop_disk_records(
      [&](const page_key& key) { return state.options.epochs.is_old(key); });
  if (state.disk.on())
    self->send(state.disk.actor, clear_atom_v, from_here{});
  stir(self); // What was given up is withdrawn and zeroed without delay.
  for (auto& each : std::exchange(clearing.waiting, std::exchange(clearing.next, {})))
    each.deliver(clearing.pages);
  clearing.pages = 0;
  clearing.walking = !clearing.waiting.empty();
  if (clearing.walking)
    self->send(self, clear_atom_v, std::uint32_t{0}, from_here{});
}

} // namespace

caf::result<std::uint64_t> give_up_old(pool_pointer self) {
  auto& clearing = self->state.clearing;
  auto promise = self->make_response_promise<std::uint64_t>();
  if (clearing.walking) {
    clearing.next.push_back(promise);
    return promise;
  }
  clearing.walking = true;
  clearing.waiting.push_back(promise);
  go_on_giving_up(self, 0);
  return promise;
}

void go_on_giving_up(pool_pointer self, std::uint32_t from) {
  auto& state = self->state;
  PEERCACHE_ASSERT(state.clearing.walking);
  std::string old;
  std::uint32_t next = 0;
  if (!state.options.epochs.untouched())
    next = state.pool->walk(from, granules_at_once, [&](const storage::resident_page& page) {
      if (state.options.epochs.is_old(page.key))
        append_record(old, page.key);
    });
  PEERCACHE_ASSERT(next == 0 || next > from); // A walk that does not advance never ends.
  if (!old.empty()) {
    state.lost.note(old, page_loss::cleared, self->clock().now());
    const auto pages = state.publishing->remove(old).size();
    state.clearing.pages += pages;
    state.clearing.pages_in_all += pages;
    carry_out_orders(self);
  }
  if (next != 0)
    self->send(self, clear_atom_v, next, from_here{});
  else
    end_walk(self);
}

} // namespace peercache::actors
