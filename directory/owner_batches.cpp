#include "directory/owner_batches.hpp"

#include "common/assert.hpp"
#include "common/limits.hpp"

#include <algorithm>
#include <array>

namespace peercache::directory {

owner_batches::owner_batches(const discovery::hash_ring& ring, std::uint32_t replicas)
    : ring_(ring), replicas_(replicas) {
  PEERCACHE_ASSERT(replicas >= 1 && replicas <= discovery::hash_ring::replicas_max);
}

owner_batch& owner_batches::open_batch(node_id owner) {
  auto found = std::find_if(batches_.rbegin(), batches_.rend(),
                            [&](const owner_batch& b) { return b.owner == owner; });
  if (found != batches_.rend() && found->indices.size() < limits::batch_pages_max)
    return *found;
  batches_.push_back({owner, {}, {}});
  return batches_.back();
}

template <class Append>
void owner_batches::add_for_owners(std::uint32_t index, const page_key& key, Append append) {
  std::array<node_id, discovery::hash_ring::replicas_max> owners;
  auto count = ring_.owners(key, std::span{owners}.first(replicas_));
  for (std::size_t i = 0; i < count; ++i) {
    auto& batch = open_batch(owners[i]);
    append(batch.records);
    batch.indices.push_back(index);
  }
}

void owner_batches::add_to(node_id owner, std::uint32_t index, const publish_record& record) {
  auto& batch = open_batch(owner);
  append_publish(batch.records, record);
  batch.indices.push_back(index);
}

void owner_batches::add_to(node_id owner, std::uint32_t index, const withdraw_record& record) {
  auto& batch = open_batch(owner);
  append_withdraw(batch.records, record);
  batch.indices.push_back(index);
}

void owner_batches::add(std::uint32_t index, const publish_record& record) {
  add_for_owners(index, record.key, [&](std::string& records) { append_publish(records, record); });
}

void owner_batches::add(std::uint32_t index, const withdraw_record& record) {
  add_for_owners(index, record.key,
                 [&](std::string& records) { append_withdraw(records, record); });
}

} // namespace peercache::directory
