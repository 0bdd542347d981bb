#include "client/pool/slot_leases.hpp"

#include "common/assert.hpp"

#include <algorithm>
#include <utility>

namespace peercache::client {

bool slot_leases::take(std::uint32_t granules, slot_id& slot) {
  std::lock_guard guard{lock_};
  if (granules == asked_granules_) {
    ++wanted_;
    wanted_of_late_ = true;
  }
  if (granules != granules_ || slots_.empty())
    return false;
  slot = slots_.back();
  slots_.pop_back();
  return true;
}

std::uint32_t slot_leases::ask_for(std::uint32_t granules, std::uint64_t at_rest,
                                   std::uint64_t most) {
  std::lock_guard guard{lock_};
  if (std::exchange(asked_granules_, granules) != granules)
    wanted_ = demand_ = at_rest_ = 0;
  at_rest_ = std::max(at_rest_, std::min(at_rest, most));
  const auto target = std::min(std::max(at_rest, 2 * demand_), most);
  // Leased slots of another size do not count: they are used up, or go back with the next slots.
  auto covered = granules == granules_ ? slots_.size() + on_their_way_ : on_their_way_;
  if (covered >= target)
    return 0;
  on_their_way_ += target - covered;
  return static_cast<std::uint32_t>(target - covered);
}

void slot_leases::commit_answered() {
  std::lock_guard guard{lock_};
  demand_ = std::max(std::exchange(wanted_, 0), demand_ - (demand_ + 63) / 64);
}

std::vector<slot_id> slot_leases::take_idle() {
  std::lock_guard guard{lock_};
  std::vector<slot_id> idle;
  if (std::exchange(wanted_of_late_, false))
    return idle;
  demand_ = 0;
  if (slots_.size() <= at_rest_)
    return idle;
  idle.assign(slots_.begin() + static_cast<std::ptrdiff_t>(at_rest_), slots_.end());
  slots_.resize(at_rest_);
  return idle;
}

std::vector<slot_id> slot_leases::add(std::uint32_t granules, std::uint32_t asked,
                                      const std::vector<slot_id>& slots) {
  std::lock_guard guard{lock_};
  PEERCACHE_ASSERT(on_their_way_ >= asked);
  on_their_way_ -= asked;
  std::vector<slot_id> unused;
  if (slots.empty())
    return unused;
  if (granules != granules_)
    unused.swap(slots_);
  granules_ = granules;
  slots_.insert(slots_.end(), slots.begin(), slots.end());
  return unused;
}

} // namespace peercache::client
