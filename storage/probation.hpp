#pragma once

#include "storage/eviction_policy.hpp"

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <unordered_map>

namespace peercache::storage {

/// The eviction order of a pool into which pages are also promoted from disk. Those are on
/// probation until they are read a second time, for the first time is what they came for: they go
/// first when they have an eighth of the pool, in the order in which they came, and are every
/// eighth victim when they have less. So a scan of cold pages flushes that eighth, and not the
/// pages that are read again and again.
///
/// Threads: one. Ownership: of the policy that orders all other pages. Errors, units: as
/// eviction_policy. Invariant: a resident page is on probation or with the policy.
class probation {
public:
  /// @pre capacity_bytes > 0
  probation(std::unique_ptr<eviction_policy> policy, std::uint64_t capacity_bytes);

  void insert(slot_id slot, const page_key& key, std::uint32_t length_bytes) {
    policy_->insert(slot, key, length_bytes);
  }
  /// The page came from disk. @pre `slot` is not resident
  void insert_promoted(slot_id slot, const page_key& key, std::uint32_t length_bytes);
  /// The page in `slot` was read. @pre it is resident
  void touch(slot_id slot, std::uint32_t times = 1);
  /// @pre `slot` is resident
  void erase(slot_id slot);

  struct choice {
    slot_id slot;
    /// Reads since it was last asked about that save it: 1, or 2 for a promoted page nobody has
    /// read yet.
    std::uint32_t reads_to_stay = 1;
    bool promoted = false;
  };
  /// Removes and returns the page that should go next.
  std::optional<choice> victim();

private:
  static constexpr std::uint32_t reads_to_stay = 2;
  static constexpr std::uint32_t share = 8; ///< Probation has one part of so many of the pool.

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
  std::uint32_t victims_ = 0; ///< The policy's victims since the last victim on probation.
  std::list<page> order_;     ///< The oldest first.
  std::unordered_map<std::uint32_t, place> places_; ///< Pages on probation, by slot.
};

} // namespace peercache::storage
