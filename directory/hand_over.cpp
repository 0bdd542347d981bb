#include "directory/hand_over.hpp"

#include "common/assert.hpp"
#include "directory/wire.hpp"
#include "discovery/placement.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>

namespace peercache::directory {

using owners_array = std::array<node_id, discovery::hash_ring::replicas_max>;

void hand_over::walk(const shard& source) {
  PEERCACHE_ASSERT(!walked_); // A second walk of the shard would send its records twice.
  const auto show = [this](const page_key& key, const page_location& location) {
    ++seen_;
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

/// Ends the hand-over and counts what it leaves. Records that the walk has not passed are counted
/// unseen: to look at each of millions now would hold up the shard's users.
void hand_over::give_up(const shard& source) {
  const auto records_in = [](const std::string& batch) {
    return batch.size() / wire::publish_record_bytes;
  };
  for (const auto& order : ready_)
    counts_.left += records_in(order.records);
  for (const auto& [to, records] : batches_)
    counts_.left += records_in(records);
  if (!walked_)
    counts_.left += source.locations() - std::min<std::uint64_t>(seen_, source.locations());
  walked_ = true;
  ready_.clear();
  batches_.clear();
}

std::vector<hand_over::order> hand_over::next(const shard& source, time_point now) {
  if (now >= options_.until)
    give_up(source);
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

std::uint64_t hand_over::answered(std::string_view outcomes) {
  PEERCACHE_ASSERT(in_flight_ > 0);
  --in_flight_;
  const auto count = [outcomes](std::initializer_list<publish_outcome> which) {
    return static_cast<std::uint64_t>(std::ranges::count_if(outcomes, [which](char byte) {
      return std::ranges::find(which, static_cast<publish_outcome>(byte)) != which.end();
    }));
  };
  const auto taken = count({publish_outcome::accepted});
  counts_.given += taken;
  // An owner that has a newer fact, or enough copies of the page, needs no record.
  counts_.left +=
      outcomes.size() - taken - count({publish_outcome::stale, publish_outcome::duplicate});
  return taken;
}

void hand_over::failed(std::uint64_t records) {
  PEERCACHE_ASSERT(in_flight_ > 0);
  --in_flight_;
  counts_.left += records;
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
