#include "storage/epoch_table.hpp"

#include "common/guards.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace peercache::storage {
namespace {

/// A reader looks at most this many times at a table that is being changed. A change takes
/// microseconds; a change that takes longer belongs to a node that died in it.
constexpr int looks_max = 1 << 16;

} // namespace

/// A change of the table: `changes` is odd as long as the object lives. A change that an earlier
/// node died in is continued.
class epoch_table::change {
public:
  explicit change(epoch_block& block) noexcept : block_(block) {
    const auto before = block.changes.load();
    block_.changes.store(before | 1);
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  ~change() { block_.changes.store(block_.changes.load() + 1, std::memory_order_release); }
  change(const change&) = delete;
  change& operator=(const change&) = delete;

private:
  epoch_block& block_;
};

epoch_block::cell* epoch_table::place_of(space_id space) const noexcept {
  const auto home = space.value % block_->cells.size();
  for (std::size_t i = 0; i < block_->cells.size(); ++i) {
    auto& cell = block_->cells[(home + i) % block_->cells.size()];
    const auto held = cell.space.load(std::memory_order_relaxed);
    if (held == space.value || held == 0)
      return &cell;
  }
  return nullptr;
}

epoch_number epoch_table::look(space_id space) const noexcept {
  const auto floor = block_->floor.load(std::memory_order_relaxed);
  const auto* cell = place_of(space);
  const bool known = cell != nullptr && cell->space.load(std::memory_order_relaxed) == space.value;
  return known ? std::max(floor, cell->epoch.load(std::memory_order_relaxed)) : floor;
}

epoch_number epoch_table::epoch_of(space_id space) const noexcept {
  if (untouched() || space == space_id{})
    return 0;
  for (int looks = 0; looks < looks_max; ++looks) {
    const auto before = block_->changes.load(std::memory_order_acquire);
    const auto epoch = look(space);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (before % 2 == 0 && block_->changes.load(std::memory_order_relaxed) == before)
      return epoch;
  }
  return no_epoch;
}

bool epoch_table::is_old(const page_key& key) const noexcept {
  if (untouched() || !guard_on(guard::epoch))
    return false;
  const auto now = epoch_of(space_of(key));
  return now != no_epoch && peercache::epoch_of(key) < now;
}

bool epoch_table::raise(space_id space, epoch_number epoch) {
  if (block_ == nullptr || space == space_id{} || look(space) >= epoch)
    return false;
  auto* cell = place_of(space);
  std::size_t used = 0;
  auto highest = std::max(epoch, floor());
  for_each([&](space_id, epoch_number other) {
    ++used;
    highest = std::max(highest, other);
  });
  const bool known = cell != nullptr && cell->space.load() == space.value;
  if (cell == nullptr || (!known && used >= spaces_max))
    return raise_floor(highest);
  const change now(*block_);
  cell->epoch.store(epoch, std::memory_order_relaxed);
  cell->space.store(space.value, std::memory_order_relaxed);
  return true;
}

bool epoch_table::raise_floor(epoch_number floor) {
  if (block_ == nullptr || block_->floor.load() >= floor)
    return false;
  std::vector<std::pair<space_id, epoch_number>> higher;
  for_each([&](space_id space, epoch_number epoch) {
    if (epoch > floor)
      higher.emplace_back(space, epoch);
  });
  // While the cells are emptied and filled again, the floor is the highest epoch of all, so that no
  // space gets a lower epoch than it had if the node dies before the cells are filled.
  auto highest = floor;
  for (const auto& [space, epoch] : higher)
    highest = std::max(highest, epoch);
  const change now(*block_);
  block_->floor.store(highest, std::memory_order_seq_cst);
  std::atomic_signal_fence(std::memory_order_seq_cst); // Not later, for a node that dies here.
  for (auto& cell : block_->cells) {
    cell.space.store(0, std::memory_order_relaxed);
    cell.epoch.store(0, std::memory_order_relaxed);
  }
  for (const auto& [space, epoch] : higher) {
    auto* cell = place_of(space);
    cell->epoch.store(epoch, std::memory_order_relaxed);
    cell->space.store(space.value, std::memory_order_relaxed);
  }
  block_->floor.store(floor, std::memory_order_seq_cst);
  return true;
}

void epoch_table::close() noexcept {
  if (block_ != nullptr)
    block_->closed.store(1, std::memory_order_seq_cst);
}

void epoch_table::open() noexcept {
  if (block_ == nullptr)
    return;
  if (block_->changes.load() % 2 != 0)
    const change now(*block_);
  block_->closed.store(0, std::memory_order_seq_cst);
}

void epoch_table::copy_to(epoch_block& to) const {
  if (untouched())
    return;
  epoch_table copy(to);
  copy.raise_floor(floor());
  for_each([&](space_id space, epoch_number epoch) { copy.raise(space, epoch); });
}

} // namespace peercache::storage
