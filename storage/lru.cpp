#include "storage/lru.hpp"

#include <utility>

namespace peercache::storage {

lru::lru(resident_pages pages) noexcept : table_(std::move(pages.table)), queue_(pages.order) {}

void lru::insert(slot_id slot, const page_key& key, std::uint32_t length_bytes) {
  insert_digest(slot, key.prefix(), length_bytes);
}

void lru::insert_digest(slot_id slot, std::uint64_t key_digest, std::uint32_t length_bytes) {
  queue_.push_back(table_, table_.add(slot, key_digest, length_bytes));
}

void lru::touch(slot_id slot) {
  const node_index node = table_.find(slot);
  PEERCACHE_ASSERT(node != node_index::none);
  queue_.unlink(table_, node);
  queue_.push_back(table_, node);
  table_[node].touched = 1;
}

void lru::erase(slot_id slot) {
  const node_index node = table_.find(slot);
  PEERCACHE_ASSERT(node != node_index::none);
  queue_.unlink(table_, node);
  table_.remove(node);
}

std::optional<slot_id> lru::victim() {
  const node_index node = queue_.front();
  if (node == node_index::none) {
    return std::nullopt;
  }
  return drop(node);
}

std::optional<slot_id> lru::untouched_victim(const slot_test& may_go) {
  const node_index node = queue_.first_untouched(table_, may_go);
  if (node == node_index::none) {
    return std::nullopt;
  }
  return drop(node);
}

slot_id lru::drop(node_index node) noexcept {
  const slot_id slot = table_[node].slot;
  queue_.unlink(table_, node);
  table_.remove(node);
  return slot;
}

resident_pages lru::release() noexcept {
  return {std::move(table_), std::exchange(queue_, page_queue{})};
}

} // namespace peercache::storage
