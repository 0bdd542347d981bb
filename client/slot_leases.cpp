#include "client/slot_leases.hpp"

#include "common/assert.hpp"

namespace peercache::client {

bool slot_leases::take(std::uint32_t granules, slot_id& slot) {
  std::lock_guard guard{lock_};
  if (granules != granules_ || slots_.empty())
    return false;
  slot = slots_.back();
  slots_.pop_back();
  return true;
}

std::uint32_t slot_leases::ask_for(std::uint32_t granules, std::uint64_t target) {
  std::lock_guard guard{lock_};
  // Leased slots of another size do not count: they are used up, or go back with the next slots.
  auto covered = granules == granules_ ? slots_.size() + on_their_way_ : on_their_way_;
  if (covered >= target)
    return 0;
  on_their_way_ += target - covered;
  return static_cast<std::uint32_t>(target - covered);
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
