#include "directory/hand_over.hpp"

#include "common/assert.hpp"
#include "directory/wire.hpp"
#include "discovery/placement.hpp"

#include <array>

namespace peercache::directory {

using owners_array = std::array<node_id, discovery::hash_ring::replicas_max>;

void hand_over::walk(const shard& source) {
  PEERCACHE_ASSERT(!walked_); // A second walk of the shard would send its records twice.
  const auto show = [this](const page_key& key, const page_location& location) {
    if (location.holder == options_.leaving)
      return;
    owners_array fresh;
    auto count = discovery::new_owners(before_, after_, key, options_.replicas, fresh);
    for (std::size_t i = 0; i < count; ++i) {
      auto& batch = batches_[fresh[i]];
      append_publish(batch, {key, location, publish_mode::always});
      if (batch.size() >= options_.batch_records * wire::publish_record_bytes)
        ready_.push_back({fresh[i], std::exchange(batch, {})});
    }
  };
  const auto before = std::exchange(place_, source.walk(place_, options_.places_per_step, show));
  PEERCACHE_ASSERT(place_ == 0 || place_ > before); // A walk that stays in place would never end.
  if (place_ == 0)
    close_batches();
}

void hand_over::close_batches() {
  PEERCACHE_ASSERT(place_ == 0);
  walked_ = true;
  for (auto& [to, records] : batches_)
    if (!records.empty())
      ready_.push_back({to, std::move(records)});
  batches_.clear();
}

std::vector<hand_over::order> hand_over::next(const shard& source, time_point now) {
  if (now >= options_.until) {
    walked_ = true;
    ready_.clear();
    batches_.clear();
  }
  std::vector<order> orders;
  while (in_flight_ < options_.in_flight_max) {
    while (ready_.empty() && !walked_)
      walk(source);
    if (ready_.empty())
      break;
    orders.push_back(std::move(ready_.front()));
    ready_.pop_front();
    ++in_flight_;
  }
  PEERCACHE_ASSERT(in_flight_ <= options_.in_flight_max);
  return orders;
}

void hand_over::settled(std::uint64_t taken) {
  PEERCACHE_ASSERT(in_flight_ > 0);
  --in_flight_;
  taken_ += taken;
}

std::vector<hand_over::order> hand_over::forward(std::string_view withdrawals) const {
  std::map<node_id, std::string> batches;
  withdraw_reader reader(withdrawals);
  withdraw_record record;
  owners_array fresh;
  while (reader.next(record)) {
    auto count = discovery::new_owners(before_, after_, record.key, options_.replicas, fresh);
    for (std::size_t i = 0; i < count; ++i)
      append_withdraw(batches[fresh[i]], record);
  }
  std::vector<order> orders;
  orders.reserve(batches.size());
  for (auto& [to, records] : batches)
    orders.push_back({to, std::move(records)});
  return orders;
}

} // namespace peercache::directory
