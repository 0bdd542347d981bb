#pragma once

#include "common/assert.hpp"
#include "common/ids.hpp"
#include "common/limits.hpp"
#include "storage/eviction_policy.hpp"
#include "storage/probe_cells.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace peercache::storage {

/// The position of a page's node in its `page_table`; it stays the same while the page is resident.
enum class node_index : std::uint32_t { none = probe_cells::none };

/// What an eviction policy notes of one resident page.
struct page_node {
  std::uint64_t key_digest = 0; ///< The `page_key::prefix()` of the page's key.
  slot_id slot;
  node_index previous = node_index::none; ///< The page before this one in its `page_queue`.
  node_index next = node_index::none;
  std::uint32_t length_bytes : 27 = 0;
  std::uint32_t uses : 2 = 0; ///< Saturated count of touches, for policies that count.
  /// Whether the page is in the small one of two queues, for policies that have two.
  std::uint32_t small : 1 = 0;
  std::uint32_t touched : 1 = 0; ///< Whether the page was touched since it was inserted.
};
static_assert(sizeof(page_node) == 24);
static_assert(limits::page_bytes_max < (1u << 27));

/// The resident pages of one policy, found by slot. Slots are sparse (granule numbers), nodes are
/// dense: an open-addressing table of node numbers leads from a slot to its node.
///
/// Threads: one. Ownership: owns its nodes; references hold until the page is removed.
/// Size: 24 bytes per node plus 5.3 to 7.1 bytes of table for each page; grows with the number of
/// pages and never shrinks, so that a pool in steady state allocates nothing.
class page_table {
public:
  page_table() = default;
  page_table(page_table&& other) noexcept;
  page_table& operator=(page_table&& other) noexcept;

  /// Adds a node for a page. @pre `slot` is not in the table, `length_bytes` <=
  /// limits::page_bytes_max
  node_index add(slot_id slot, std::uint64_t key_digest, std::uint32_t length_bytes);

  /// The node of the page in `slot`; `node_index::none` when `slot` is not in the table.
  node_index find(slot_id slot) const noexcept;

  /// Removes a node. @pre `node` is in the table and in no queue
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

  /// The nodes, in chunks that never move, so that growing copies no node.
  std::vector<std::unique_ptr<page_node[]>> chunks_;
  std::uint32_t nodes_made_ = 0;
  /// The first unused node; unused nodes are linked by `next`.
  node_index free_ = node_index::none;
  probe_cells nodes_; ///< Finds a node's number by its slot.
  std::size_t size_ = 0;
};

/// A doubly linked queue through the nodes of one `page_table`. The front leaves first.
/// Threads: one. Ownership: none. Invariants: `bytes` is the sum of the lengths of its pages.
class page_queue {
public:
  void push_back(page_table& table, node_index node) noexcept;
  void unlink(page_table& table, node_index node) noexcept;

  /// Moves all pages of `other`, in order, behind the back of this queue.
  void append(page_table& table, page_queue& other) noexcept;

  /// The first page that was not touched since it was inserted and of whose slot `may_go` is true;
  /// `node_index::none` when none of the first `looks_max` pages is one.
  node_index first_untouched(const page_table& table, const slot_test& may_go) const;

  /// The node that leaves the queue first; `node_index::none` when the queue is empty.
  node_index front() const noexcept { return front_; }
  bool empty() const noexcept { return front_ == node_index::none; }
  std::uint64_t bytes() const noexcept { return bytes_; }

private:
  static constexpr std::uint32_t looks_max = 16;

  node_index front_ = node_index::none;
  node_index back_ = node_index::none;
  std::uint64_t bytes_ = 0;
};

/// The pages of a policy in the order in which it would have evicted them. Pages move in this form
/// from one policy to another.
struct resident_pages {
  page_table table;
  page_queue order;
};

} // namespace peercache::storage
