#include "storage/s3fifo.hpp"

#include <algorithm>
#include <utility>

namespace peercache::storage {

namespace {

/// The small queue may have at most the capacity divided by this.
constexpr std::uint64_t small_share = 10;
constexpr std::uint32_t uses_max = 3;

} // namespace

s3fifo::s3fifo(std::uint64_t capacity_bytes) {
  resize(capacity_bytes);
}

s3fifo::s3fifo(std::uint64_t capacity_bytes, resident_pages pages) noexcept
    : s3fifo(capacity_bytes) {
  table_ = std::move(pages.table);
  main_ = pages.order;
  while (!main_.empty() && small_.bytes() < small_bytes_max_) {
    const node_index node = main_.front();
    main_.unlink(table_, node);
    table_[node].small = 1;
    small_.push_back(table_, node);
  }
}

void s3fifo::resize(std::uint64_t capacity_bytes) noexcept {
  PEERCACHE_ASSERT(capacity_bytes > 0);
  small_bytes_max_ = std::max<std::uint64_t>(1, capacity_bytes / small_share);
}

void s3fifo::insert(slot_id slot, const page_key& key, std::uint32_t length_bytes) {
  insert_digest(slot, key.prefix(), length_bytes);
}

void s3fifo::insert_digest(slot_id slot, std::uint64_t key_digest, std::uint32_t length_bytes) {
  const node_index node = table_.add(slot, key_digest, length_bytes);
  page_node& page = table_[node];
  page.small = ghosts_.take(key_digest, table_.size()) ? 0 : 1;
  queue_of(page).push_back(table_, node);
}

void s3fifo::touch(slot_id slot) {
  const node_index node = table_.find(slot);
  PEERCACHE_ASSERT(node != node_index::none);
  page_node& page = table_[node];
  page.touched = 1;
  if (page.uses < uses_max) {
    ++page.uses;
  }
}

void s3fifo::erase(slot_id slot) {
  const node_index node = table_.find(slot);
  PEERCACHE_ASSERT(node != node_index::none);
  drop(node);
}

std::optional<slot_id> s3fifo::victim() {
  if (small_.bytes() >= small_bytes_max_ || main_.empty()) {
    if (const auto slot = victim_of_small()) {
      return slot;
    }
  }
  return victim_of_main();
}

std::optional<slot_id> s3fifo::untouched_victim(const slot_test& may_go) {
  // Only the small queue is searched: pages of the main queue were touched, or came again soon
  // after they had been evicted.
  const node_index node = small_.first_untouched(table_, may_go);
  if (node == node_index::none)
    return std::nullopt;
  return drop_ghost(node);
}

/// Drops a page of the small queue, whose key becomes a ghost.
slot_id s3fifo::drop_ghost(node_index node) {
  ghosts_.remember(table_[node].key_digest, table_.size());
  return drop(node);
}

std::optional<slot_id> s3fifo::victim_of_small() {
  while (!small_.empty()) {
    const node_index node = small_.front();
    page_node& page = table_[node];
    if (page.uses == 0)
      return drop_ghost(node);
    small_.unlink(table_, node);
    page.uses = 0;
    page.small = 0;
    main_.push_back(table_, node);
  }
  return std::nullopt;
}

std::optional<slot_id> s3fifo::victim_of_main() {
  // The loop ends, because each round takes a use from every page that it passes, and a page has at
  // most `uses_max`.
  while (!main_.empty()) {
    const node_index node = main_.front();
    page_node& page = table_[node];
    if (page.uses == 0) {
      return drop(node);
    }
    --page.uses;
    main_.unlink(table_, node);
    main_.push_back(table_, node);
  }
  return std::nullopt;
}

slot_id s3fifo::drop(node_index node) noexcept {
  const slot_id slot = table_[node].slot;
  queue_of(table_[node]).unlink(table_, node);
  table_.remove(node);
  return slot;
}

resident_pages s3fifo::release() noexcept {
  resident_pages pages;
  page_queue touched;
  while (!small_.empty()) {
    const node_index node = small_.front();
    page_node& page = table_[node];
    small_.unlink(table_, node);
    (page.uses == 0 ? pages.order : touched).push_back(table_, node);
    page.uses = 0;
    page.small = 0;
  }
  pages.order.append(table_, main_);
  pages.order.append(table_, touched);
  pages.table = std::move(table_);
  return pages;
}

} // namespace peercache::storage
