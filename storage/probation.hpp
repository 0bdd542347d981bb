#pragma once

#include "storage/eviction_policy.hpp"

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <unordered_map>

namespace peercache::storage {

/// The eviction order of a pool into which pages are also promoted from disk. Promoted pages are on
/// probation until they are read a second time (the first read is what they were promoted for).
/// When pages on probation take more than an eighth of the pool, the next victim is a page that is
/// not on probation, that nobody has read since it came and that may yield (`yield_test`), if such
/// a page is among the first few in the order; otherwise it is the page that has been on probation
/// longest. When pages on probation take less, every eighth victim is one of them. So a scan of
/// cold pages flushes an eighth of the pool and unread pages that are kept elsewhere. Pages that
/// are read again and again stay, and so do pages without another copy.
///
/// Threads: one. Ownership: owns the policy that orders all other pages. Errors, units: as
/// eviction_policy. Invariant: a resident page is on probation or with the policy.
class probation {
public:
  /// @pre `capacity_bytes` > 0
  probation(std::unique_ptr<eviction_policy> policy, std::uint64_t capacity_bytes);

  void insert(slot_id slot, const page_key& key, std::uint32_t length_bytes) {
    policy_->insert(slot, key, length_bytes);
  }
  /// Takes in a page that came from disk, on probation. @pre `slot` is not resident
  void insert_promoted(slot_id slot, const page_key& key, std::uint32_t length_bytes);
  /// Notes `times` reads of the page in `slot`. @pre `slot` is resident
  void touch(slot_id slot, std::uint32_t times = 1);
  /// Forgets the page in `slot`. @pre `slot` is resident
  void erase(slot_id slot);

  struct choice {
    slot_id slot;
    /// How many reads since the page was last asked about save it from eviction: 1, or 2 for a
    /// promoted page that nobody has read yet.
    std::uint32_t reads_to_stay = 1;
    bool promoted = false;
  };
  /// Whether the unread page in the first slot may go before the oldest page on probation, which is
  /// in the second slot.
  using yield_test = std::function<bool(slot_id, slot_id)>;
  /// Removes and returns the page that should be evicted next; nothing when no page is resident.
  /// Pages on probation push out unread pages for which `may_yield` is true; without `may_yield`
  /// they push out none.
  std::optional<choice> victim(const yield_test& may_yield = nullptr);

private:
  static constexpr std::uint32_t reads_to_stay = 2;
  /// Pages on probation may take one part in `share` of the pool. While they take no more, one
  /// victim in `share` is on probation.
  static constexpr std::uint32_t share = 8;

  struct page {
    slot_id slot;
    page_key key;
    std::uint32_t length_bytes = 0;
    std::uint32_t reads = 0;
  };
  using place = std::list<page>::iterator;

  page take(place at);
  choice take_oldest();

  const std::unique_ptr<eviction_policy> policy_;
  const std::uint64_t bytes_max_;
  std::uint64_t bytes_ = 0;
  /// The slot of the last victim, if that was an unread page which was not on probation.
  std::optional<slot_id> offered_;
  bool was_read_ = false;     ///< A page in the slot `offered_` was touched since.
  std::uint32_t victims_ = 0; ///< Victims since the last one that was on probation.
  std::list<page> order_;     ///< Pages on probation, the oldest first.
  /// The places of pages on probation in `order_`, by slot.
  std::unordered_map<std::uint32_t, place> places_;
};

} // namespace peercache::storage
