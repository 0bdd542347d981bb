#pragma once

#include "storage/eviction_policy.hpp"
#include "storage/page_table.hpp"

namespace peercache::storage {

/// Evicts the least recently used page first. Good where conversations come back soon and most of
/// the working set fits.
///
/// A prefix chain loses its tail first by itself: the caller touches a chain from last to first, so
/// the head is always the most recent. Threads: one. Size: at most 32 bytes per page.
class lru final : public eviction_policy {
public:
  lru() = default;

  /// Takes over the pages of another policy, in their order.
  explicit lru(resident_pages pages) noexcept;

  void insert(slot_id slot, const page_key& key, std::uint32_t length_bytes) override;
  void touch(slot_id slot) override;
  void erase(slot_id slot) override;
  std::optional<slot_id> victim() override;
  std::optional<slot_id> untouched_victim(const slot_test& may_go) override;

  /// Inserts as the public `insert` does, for callers that have only the key's digest.
  void insert_digest(slot_id slot, std::uint64_t key_digest, std::uint32_t length_bytes);

  /// Hands all pages over; the policy is empty afterwards.
  resident_pages release() noexcept;

  const page_table& pages() const noexcept { return table_; }
  std::uint64_t bytes() const noexcept { return queue_.bytes(); }
  std::size_t memory_bytes() const noexcept { return table_.memory_bytes(); }

private:
  slot_id drop(node_index node) noexcept;

  page_table table_;
  page_queue queue_;
};

} // namespace peercache::storage
