#pragma once

#include "storage/eviction_policy.hpp"
#include "storage/ghost_keys.hpp"
#include "storage/page_table.hpp"

namespace peercache::storage {

/// The S3-FIFO policy: three static queues instead of recency (J. Yang, Y. Zhang, Z. Qiu, Y. Yue,
/// K. V. Rashmi: "FIFO queues are all you need for cache eviction", SOSP '23). A new page enters
/// the small queue, a tenth of the bytes. If nobody touched the page by the time it reaches the
/// front, it goes and its key becomes a ghost; otherwise it moves to the main queue. A page whose
/// key is still a ghost enters the main queue at once. The main queue is a clock: a touched page
/// goes round again with one use less (two-bit counts). Good where most prompts are seen once and
/// the working set is far larger than the pool.
///
/// One touch is enough for the main queue: with two, as the authors' later code asks for, the
/// reference hit rates of the trace in bench/trace_hit_rates.cpp drop at small capacities.
///
/// Tail first: queues keep the order of insertion, and each page of a chain is touched whenever a
/// later one is, so within a queue a chain loses its tail before its head. A chain that lies in
/// both queues may lose its head first; that strands one or two pages in a hundred for a while.
///
/// Threads: one. Units: bytes. Size: at most 47 bytes per page, ghosts included; there are never
/// more ghosts than resident pages.
class s3fifo final : public eviction_policy {
public:
  /// @pre `capacity_bytes` > 0
  explicit s3fifo(std::uint64_t capacity_bytes);

  /// Takes over the pages of another policy: the first tenth of the pages becomes the small queue,
  /// all other pages the main queue.
  s3fifo(std::uint64_t capacity_bytes, resident_pages pages) noexcept;

  void insert(slot_id slot, const page_key& key, std::uint32_t length_bytes) override;
  void touch(slot_id slot) override;
  void erase(slot_id slot) override;
  std::optional<slot_id> victim() override;
  std::optional<slot_id> untouched_victim(const slot_test& may_go) override;

  /// Inserts as the public `insert` does, for callers that have only the key's digest.
  void insert_digest(slot_id slot, std::uint64_t key_digest, std::uint32_t length_bytes);

  /// Hands all pages over; the policy is empty afterwards, and the ghosts are forgotten. The pages'
  /// order: small pages that nobody touched, the main queue, small pages that were about to join
  /// the main queue.
  resident_pages release() noexcept;

  /// Gives the policy another capacity. @pre `capacity_bytes` > 0
  void resize(std::uint64_t capacity_bytes) noexcept;

  const page_table& pages() const noexcept { return table_; }
  std::uint64_t bytes() const noexcept { return small_.bytes() + main_.bytes(); }
  std::size_t memory_bytes() const noexcept {
    return table_.memory_bytes() + ghosts_.memory_bytes();
  }

private:
  page_queue& queue_of(const page_node& page) noexcept { return page.small ? small_ : main_; }
  slot_id drop_ghost(node_index node);
  std::optional<slot_id> victim_of_small();
  std::optional<slot_id> victim_of_main();
  slot_id drop(node_index node) noexcept;

  std::uint64_t small_bytes_max_ = 0;
  page_table table_;
  page_queue small_;
  page_queue main_;
  ghost_keys ghosts_;
};

} // namespace peercache::storage
