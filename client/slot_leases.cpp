#include "client/slot_leases.hpp"

#include <utility>

namespace peercache::client {

bool slot_leases::take(std::uint32_t granules, slot_id& slot) {
  std::lock_guard guard{lock_};
  if (granules != granules_ || slots_.empty())
    return false;
  slot = slots_.back();
  slots_.pop_back();
  return true;
}

std::vector<slot_id> slot_leases::add(std::uint32_t granules, const std::vector<slot_id>& slots) {
  std::lock_guard guard{lock_};
  std::vector<slot_id> left_over;
  if (granules != granules_)
    left_over.swap(slots_);
  granules_ = granules;
  slots_.insert(slots_.end(), slots.begin(), slots.end());
  return left_over;
}

std::vector<slot_id> slot_leases::clear() {
  std::lock_guard guard{lock_};
  return std::exchange(slots_, {});
}

std::size_t slot_leases::available(std::uint32_t granules) const {
  std::lock_guard guard{lock_};
  return granules == granules_ ? slots_.size() : 0;
}

} // namespace peercache::client
