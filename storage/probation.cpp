#include "storage/probation.hpp"

#include "common/assert.hpp"

#include <utility>

namespace peercache::storage {

probation::probation(std::unique_ptr<eviction_policy> policy, std::uint64_t capacity_bytes)
    : policy_(std::move(policy)), bytes_max_(capacity_bytes / share) {
  PEERCACHE_ASSERT(policy_ != nullptr);
}

void probation::insert_promoted(slot_id slot, const page_key& key, std::uint32_t length_bytes) {
  order_.push_back({slot, key, length_bytes, 0});
  const bool is_new = places_.emplace(slot.value, std::prev(order_.end())).second;
  PEERCACHE_ASSERT(is_new);
  bytes_ += length_bytes;
}

probation::page probation::take(place at) {
  const auto taken = *at;
  places_.erase(taken.slot.value);
  order_.erase(at);
  bytes_ -= taken.length_bytes;
  return taken;
}

void probation::touch(slot_id slot, std::uint32_t times) {
  const auto found = places_.find(slot.value);
  if (found == places_.end()) {
    was_read_ = was_read_ || slot == offered_;
    return policy_->touch(slot);
  }
  auto& its = *found->second;
  its.reads += times;
  if (its.reads < reads_to_stay)
    return;
  const auto proven = take(found->second);
  policy_->insert(proven.slot, proven.key, proven.length_bytes);
  policy_->touch(proven.slot);
}

void probation::erase(slot_id slot) {
  const auto found = places_.find(slot.value);
  if (found == places_.end())
    policy_->erase(slot);
  else
    take(found->second);
}

std::optional<probation::choice> probation::victim(const yield_test& may_yield) {
  const bool too_many = bytes_ > bytes_max_;
  std::optional<slot_id> unread;
  if (too_many && !was_read_ && may_yield)
    unread = policy_->untouched_victim(
        [&](slot_id slot) { return may_yield(slot, order_.front().slot); });
  was_read_ = false;
  offered_ = unread;
  if (unread)
    return choice{*unread, 1, false};
  if (too_many || (!order_.empty() && ++victims_ >= share))
    return take_oldest();
  if (const auto slot = policy_->victim())
    return choice{*slot, 1, false};
  return order_.empty() ? std::nullopt : std::optional(take_oldest());
}

probation::choice probation::take_oldest() {
  victims_ = 0;
  const auto oldest = take(order_.begin());
  return {oldest.slot, reads_to_stay - oldest.reads, true};
}

} // namespace peercache::storage
