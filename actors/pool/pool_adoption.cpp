#include "actors/pool/pool_adoption.hpp"

#include "actors/pool/pool_publishing.hpp"
#include "common/log.hpp"

#include <chrono>

namespace peercache::actors {
namespace {

/// Bytes of pages that the comparing thread checks between two looks at `stop`, and reports in one
/// message: some milliseconds of a thread, and at most 4,096 pages.
constexpr std::uint64_t piece_bytes = 16u << 20;

void finish(pool_pointer self) {
  auto& state = self->state;
  auto& adoption = state.adoption;
  const auto took =
      std::chrono::duration_cast<std::chrono::milliseconds>(self->clock().now() - adoption.begun);
  log::log(adoption.refused == 0 ? log::level::info : log::level::warn,
           "pool: {} pages of the process before taken over, {} refused because their bytes are "
           "not those of their checksums; {} ms",
           state.pool->stats().adopted, adoption.refused, took.count());
  // The walk over the disk marks the adopted pages that are on disk too; no owner is told anything.
  state.publishing->learn_marks();
  carry_out_orders(self);
}

} // namespace

void compare_remains(storage::remains_check& remains, const std::atomic<bool>& stop,
                     const std::function<void(std::string compared)>& send) {
  while (!stop.load(std::memory_order_relaxed)) {
    std::string compared;
    for (const auto& page : remains.next(piece_bytes))
      append_record(compared, compared_page{page.slot, page.intact ? 1u : 0u});
    const bool was_all = compared.empty();
    send(std::move(compared));
    if (was_all)
      return;
  }
}

void adopt_pages(pool_pointer self, const std::string& compared) {
  auto& state = self->state;
  const auto count = record_count<compared_page>(compared).value_or(0);
  if (count == 0)
    return finish(self);
  std::vector<slot_id> intact;
  for (std::size_t i = 0; i < count; ++i) {
    const auto page = record_at<compared_page>(compared, i);
    if (page.intact != 0) {
      intact.push_back(page.slot);
    } else {
      state.pool->give_back(page.slot);
      ++state.adoption.refused;
    }
  }
  state.publishing->adopted(state.pool->adopt(intact), self->clock().now());
  carry_out_orders(self);
}

void free_former_fills(pool_state& state) {
  auto& slots = state.adoption.options.being_filled;
  if (slots.empty() || !state.adoption.options.former_clients_are_dead())
    return;
  for (const auto slot : slots)
    state.pool->give_back(slot);
  slots.clear();
}

} // namespace peercache::actors
