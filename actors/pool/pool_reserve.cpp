#include "actors/pool/pool_reserve.hpp"

#include "actors/pool/pool_actor.hpp"
#include "common/assert.hpp"

#include <utility>

namespace peercache::actors {
namespace {

/// After this many zeroed bytes a reserve lets other messages of the actor be handled. The page at
/// which the limit is passed gets its slot before that, whatever has to be zeroed for it.
constexpr std::uint64_t reserve_step_bytes = 4u << 20;

} // namespace

bool pool_state::reserve(open_reserve& open, std::uint64_t zeroed_bytes_max,
                         storage::hold_table::time_point now) {
  pool->tell_time(now);
  std::vector<storage::evicted> victims;
  const auto count = record_count<std::uint32_t>(open.lengths).value_or(0);
  using spare_mode = storage::page_pool::spare_mode;
  const auto spare = disk.on() && mostly_on_disk() ? spare_mode::only_copies : spare_mode::none;
  auto done = open.slots.size() / sizeof(slot_id);
  for (; done < count && pool->zeroed_bytes() < zeroed_bytes_max; ++done) {
    const auto length_bytes = record_at<std::uint32_t>(open.lengths, done);
    auto slot = pool->reserve(length_bytes, victims, spare);
    append_record(open.slots, slot ? *slot : no_slot);
    demand.add(length_bytes);
  }
  for (const auto& page : victims) {
    disk.lose(page);
    lost.note(page.key, page_loss::evicted, now);
  }
  publishing->left(victims);
  return done == count;
}

void reserve_on(pool_pointer self) {
  auto& state = self->state;
  PEERCACHE_ASSERT(!state.reserving.empty()); // Only then the actor sends itself this message.
  const auto zeroed_bytes_max = state.pool->zeroed_bytes() + reserve_step_bytes;
  while (!state.reserving.empty() &&
         state.reserve(state.reserving.front(), zeroed_bytes_max, self->clock().now())) {
    const auto done = std::move(state.reserving.front());
    state.reserving.pop_front();
    done.answer(done.slots);
  }
  if (state.reserving.empty())
    return;
  self->send(self, reserve_atom_v, from_here{});
  stir(self); // The pages that made room are withdrawn without delay.
}

void reserve_then(pool_pointer self, std::string lengths,
                  std::function<void(std::string slots)> answer) {
  if (lengths.empty())
    return answer({}); // A commit that wants no slots waits for nobody's.
  auto& waiting = self->state.reserving;
  waiting.push_back({std::move(lengths), {}, std::move(answer)});
  if (waiting.size() == 1)
    reserve_on(self);
}

caf::result<std::string> reserve_slots(pool_pointer self, const std::string& lengths) {
  stir(self);
  auto promise = self->make_response_promise<std::string>();
  reserve_then(self, lengths,
               [promise](std::string slots) mutable { promise.deliver(std::move(slots)); });
  return promise;
}

} // namespace peercache::actors
