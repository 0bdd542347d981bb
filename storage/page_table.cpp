#include "storage/page_table.hpp"

#include <utility>

namespace peercache::storage {

namespace {

/// Spreads neighbouring slots over the table: the slots of pages are multiples of the page size in
/// granules.
constexpr std::uint32_t hash_of(slot_id slot) noexcept {
  return static_cast<std::uint32_t>(mixed(slot.value) >> 32);
}

constexpr std::uint32_t number_of(node_index node) noexcept {
  return static_cast<std::uint32_t>(node);
}

} // namespace

page_table::page_table(page_table&& other) noexcept {
  *this = std::move(other);
}

page_table& page_table::operator=(page_table&& other) noexcept {
  chunks_ = std::exchange(other.chunks_, {});
  nodes_made_ = std::exchange(other.nodes_made_, 0);
  free_ = std::exchange(other.free_, node_index::none);
  nodes_ = std::exchange(other.nodes_, {});
  size_ = std::exchange(other.size_, 0);
  return *this;
}

node_index page_table::add(slot_id slot, std::uint64_t key_digest, std::uint32_t length_bytes) {
  PEERCACHE_ASSERT(length_bytes <= limits::page_bytes_max);
  PEERCACHE_ASSERT(find(slot) == node_index::none);
  if (!nodes_.has_room_for(size_ + 1)) {
    nodes_.grow(size_ + 1,
                [this](std::uint32_t it) { return hash_of((*this)[node_index{it}].slot); });
  }
  const node_index node = take_node();
  page_node& page = (*this)[node];
  page = page_node{};
  page.key_digest = key_digest;
  page.slot = slot;
  page.length_bytes = length_bytes & ((1u << 27) - 1);
  nodes_.insert(hash_of(slot), number_of(node));
  ++size_;
  return node;
}

node_index page_table::find(slot_id slot) const noexcept {
  return node_index{nodes_.find(
      hash_of(slot), [&](std::uint32_t it) { return (*this)[node_index{it}].slot == slot; })};
}

void page_table::remove(node_index node) noexcept {
  nodes_.erase(hash_of((*this)[node].slot), number_of(node),
               [this](std::uint32_t it) { return hash_of((*this)[node_index{it}].slot); });
  (*this)[node].next = free_;
  free_ = node;
  --size_;
}

std::vector<slot_id> page_table::slots() const {
  std::vector<slot_id> slots;
  slots.reserve(size_);
  for (const std::uint32_t node : nodes_.cells()) {
    if (node != probe_cells::none) {
      slots.push_back((*this)[node_index{node}].slot);
    }
  }
  return slots;
}

std::size_t page_table::memory_bytes() const noexcept {
  return chunks_.size() * nodes_per_chunk * sizeof(page_node) +
         chunks_.capacity() * sizeof(chunks_[0]) + nodes_.memory_bytes();
}

node_index page_table::take_node() {
  if (free_ != node_index::none) {
    const node_index node = free_;
    free_ = (*this)[node].next;
    return node;
  }
  PEERCACHE_ASSERT(nodes_made_ < static_cast<std::uint32_t>(node_index::none));
  if (nodes_made_ == chunks_.size() * nodes_per_chunk) {
    chunks_.push_back(std::make_unique<page_node[]>(nodes_per_chunk));
  }
  return static_cast<node_index>(nodes_made_++);
}

void page_queue::push_back(page_table& table, node_index node) noexcept {
  page_node& page = table[node];
  page.previous = back_;
  page.next = node_index::none;
  (back_ == node_index::none ? front_ : table[back_].next) = node;
  back_ = node;
  bytes_ += page.length_bytes;
}

void page_queue::unlink(page_table& table, node_index node) noexcept {
  page_node& page = table[node];
  (page.previous == node_index::none ? front_ : table[page.previous].next) = page.next;
  (page.next == node_index::none ? back_ : table[page.next].previous) = page.previous;
  page.previous = node_index::none;
  page.next = node_index::none;
  PEERCACHE_ASSERT(bytes_ >= page.length_bytes);
  bytes_ -= page.length_bytes;
}

void page_queue::append(page_table& table, page_queue& other) noexcept {
  if (other.empty()) {
    return;
  }
  (back_ == node_index::none ? front_ : table[back_].next) = other.front_;
  table[other.front_].previous = back_;
  back_ = other.back_;
  bytes_ += other.bytes_;
  other = page_queue{};
}

node_index page_queue::first_untouched(const page_table& table, const slot_test& may_go) const {
  auto node = front_;
  for (std::uint32_t looks = 0; node != node_index::none && looks < looks_max; ++looks) {
    const auto& page = table[node];
    if (page.touched == 0 && may_go(page.slot))
      return node;
    node = page.next;
  }
  return node_index::none;
}

} // namespace peercache::storage
