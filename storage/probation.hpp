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
/// When the pages on probation have more than an eighth of the pool, older pages that nobody has
/// read since they came, and that are kept elsewhere, are evicted before them (where one is among
/// the first few in the order); else they are, in the order in which they came, before all others.
/// When they have less, they are every eighth victim. So a scan of cold pages flushes that eighth
/// and what lies unread on disk, too; pages that are read again and again stay, as do pages of
/// which there is no other copy and those that come after the scan.
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
  /// Promoted pages push out unread ones of which `may_yield` is true; without it, none.
  std::optional<choice> victim(const yield_test& may_yield = nullptr);

private:
  static constexpr std::uint32_t reads_to_stay = 2;
  /// Pages on probation may take this part of the pool (one eighth), and are one in this many
  /// victims.
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
  std::optional<slot_id> offered_; ///< The last victim, if it seemed unread.
  bool was_read_ = false;          ///< A page in the slot `offered_` was touched since.
  std::uint32_t victims_ = 0;      ///< Victims since the last one that was on probation.
  std::list<page> order_;          ///< Pages on probation, the oldest first.
  /// The places of pages on probation in `order_`, by slot.
  std::unordered_map<std::uint32_t, place> places_;
};

} // namespace peercache::storage
