#include "storage/page_table.hpp"

#include <utility>

namespace peercache::storage {

namespace {

constexpr std::size_t cells_min = 16;

/// Spreads neighbouring slots: page starts are multiples of the page size in granules.
constexpr std::uint32_t hash_of(slot_id slot) noexcept {
  return static_cast<std::uint32_t>(mixed(slot.value) >> 32);
}

/// Maps 32 hash bits onto [0, size) without a division.
constexpr std::size_t scaled(std::uint32_t hash, std::size_t size) noexcept {
  return static_cast<std::size_t>((static_cast<std::uint64_t>(hash) * size) >> 32);
}

constexpr std::size_t distance(std::size_t from, std::size_t to, std::size_t size) noexcept {
  return to >= from ? to - from : to + size - from;
}

} // namespace

page_table::page_table(page_table&& other) noexcept {
  *this = std::move(other);
}

page_table& page_table::operator=(page_table&& other) noexcept {
  chunks_ = std::exchange(other.chunks_, {});
  nodes_made_ = std::exchange(other.nodes_made_, 0);
  free_ = std::exchange(other.free_, node_index::none);
  cells_ = std::exchange(other.cells_, {});
  size_ = std::exchange(other.size_, 0);
  return *this;
}

node_index page_table::add(slot_id slot, std::uint64_t key_digest, std::uint32_t length_bytes) {
  PEERCACHE_ASSERT(length_bytes <= limits::page_bytes_max);
  if ((size_ + 1) * 4 > cells_.size() * 3) {
    grow_cells();
  }
  const std::size_t cell = cell_of(slot);
  PEERCACHE_ASSERT(cells_[cell] == node_index::none);
  const node_index node = take_node();
  page_node& page = (*this)[node];
  page = page_node{};
  page.key_digest = key_digest;
  page.slot = slot;
  page.length_bytes = length_bytes & ((1u << 27) - 1);
  cells_[cell] = node;
  ++size_;
  return node;
}

node_index page_table::find(slot_id slot) const noexcept {
  return cells_.empty() ? node_index::none : cells_[cell_of(slot)];
}

void page_table::remove(node_index node) noexcept {
  std::size_t hole = cell_of((*this)[node].slot);
  PEERCACHE_ASSERT(cells_[hole] == node);
  // Backward shift: whatever lies behind the hole and would be found from it moves up, so that no
  // tombstones pile up in a table that lives as long as the pool.
  const std::size_t size = cells_.size();
  for (std::size_t cell = (hole + 1) % size; cells_[cell] != node_index::none;
       cell = cell + 1 == size ? 0 : cell + 1) {
    const std::size_t home = home_of((*this)[cells_[cell]].slot);
    if (distance(home, cell, size) >= distance(hole, cell, size)) {
      cells_[hole] = cells_[cell];
      hole = cell;
    }
  }
  cells_[hole] = node_index::none;
  (*this)[node].next = free_;
  free_ = node;
  --size_;
}

std::vector<slot_id> page_table::slots() const {
  std::vector<slot_id> slots;
  slots.reserve(size_);
  for (const node_index node : cells_) {
    if (node != node_index::none) {
      slots.push_back((*this)[node].slot);
    }
  }
  return slots;
}

std::size_t page_table::memory_bytes() const noexcept {
  return chunks_.size() * nodes_per_chunk * sizeof(page_node) +
         chunks_.capacity() * sizeof(chunks_[0]) + cells_.capacity() * sizeof(cells_[0]);
}

std::size_t page_table::home_of(slot_id slot) const noexcept {
  return scaled(hash_of(slot), cells_.size());
}

std::size_t page_table::cell_of(slot_id slot) const noexcept {
  std::size_t cell = home_of(slot);
  while (cells_[cell] != node_index::none && (*this)[cells_[cell]].slot != slot) {
    cell = cell + 1 == cells_.size() ? 0 : cell + 1;
  }
  return cell;
}

void page_table::place(node_index node) noexcept {
  cells_[cell_of((*this)[node].slot)] = node;
}

void page_table::grow_cells() {
  const std::size_t size = cells_.empty() ? cells_min : cells_.size() + cells_.size() / 2;
  const std::vector<node_index> old =
      std::exchange(cells_, std::vector<node_index>(size, node_index::none));
  for (const node_index node : old) {
    if (node != node_index::none) {
      place(node);
    }
  }
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

} // namespace peercache::storage
