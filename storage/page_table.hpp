#pragma once

#include "common/assert.hpp"
#include "common/ids.hpp"
#include "common/limits.hpp"
#include "storage/probe_cells.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace peercache::storage {

/// Position of a page's node in its `page_table`; stays the same while the page is resident.
enum class node_index : std::uint32_t { none = probe_cells::none };

/// A policy's notes about one resident page.
struct page_node {
  std::uint64_t key_digest = 0; ///< `page_key::prefix()`.
  slot_id slot;
  node_index previous = node_index::none; ///< The neighbour in the page's `page_queue`.
  node_index next = node_index::none;
  std::uint32_t length_bytes : 27 = 0;
  std::uint32_t uses : 2 = 0;  ///< Saturated count of touches, for policies that count.
  std::uint32_t small : 1 = 0; ///< Which of two queues, for policies that have two.
};
static_assert(sizeof(page_node) == 24);
static_assert(limits::page_bytes_max < (1u << 27));

/// The resident pages of one policy, found by slot. Slots are sparse (granule numbers), nodes are
/// dense: an open-addressing table of node numbers leads from one to the other.
///
/// Threads: one. Ownership: of its nodes; references hold until the page is removed.
/// Size: 24 bytes a node plus 5.3 to 7.1 bytes of table for each page; grows with the number of
/// pages and never shrinks, so that a pool in steady state allocates nothing.
class page_table {
public:
  page_table() = default;
  page_table(page_table&& other) noexcept;
  page_table& operator=(page_table&& other) noexcept;

  /// @pre `slot` is not in the table, `length_bytes` <= limits::page_bytes_max
  node_index add(slot_id slot, std::uint64_t key_digest, std::uint32_t length_bytes);

  /// `node_index::none` if `slot` is not in the table.
  node_index find(slot_id slot) const noexcept;

  /// @pre `node` is in the table and in no queue
  void remove(node_index node) noexcept;

  page_node& operator[](node_index node) noexcept {
    return const_cast<page_node&>(std::as_const(*this)[node]);
  }
  const page_node& operator[](node_index node) const noexcept {
    const auto number = static_cast<std::uint32_t>(node);
    PEERCACHE_HOT_ASSERT(number < nodes_made_);
    return chunks_[number / nodes_per_chunk][number % nodes_per_chunk];
  }

  /// The slots of all pages, in no order.
  std::vector<slot_id> slots() const;

  std::size_t size() const noexcept { return size_; }
  std::size_t memory_bytes() const noexcept;

private:
  static constexpr std::uint32_t nodes_per_chunk = 256;

  node_index take_node();

  std::vector<std::unique_ptr<page_node[]>> chunks_; ///< Chunks never move: growing copies no node.
  std::uint32_t nodes_made_ = 0;
  node_index free_ = node_index::none; ///< Unused nodes, linked by `next`.
  probe_cells nodes_;                  ///< Node numbers by slot.
  std::size_t size_ = 0;
};

/// A doubly linked queue through the nodes of one `page_table`. The front leaves first.
/// Threads: one. Ownership: none. Invariants: `bytes` is the sum of the lengths of its pages.
class page_queue {
public:
  void push_back(page_table& table, node_index node) noexcept;
  void unlink(page_table& table, node_index node) noexcept;

  /// Takes all of `other` behind its own back, in order.
  void append(page_table& table, page_queue& other) noexcept;

  /// `node_index::none` when empty.
  node_index front() const noexcept { return front_; }
  bool empty() const noexcept { return front_ == node_index::none; }
  std::uint64_t bytes() const noexcept { return bytes_; }

private:
  node_index front_ = node_index::none;
  node_index back_ = node_index::none;
  std::uint64_t bytes_ = 0;
};

/// The pages of a policy in the order in which they would have gone: how they move from one policy
/// to another.
struct resident_pages {
  page_table table;
  page_queue order;
};

} // namespace peercache::storage
