#pragma once

#include "common/ids.hpp"
#include "common/page_key.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

namespace peercache::storage {

/// A question about the page in a slot.
using slot_test = std::function<bool(slot_id)>;

/// The order in which the resident pages of one pool are evicted when room is needed. The policy
/// learns only of pages that were inserted and touched; the pool decides when to ask for a victim
/// and what becomes of it.
///
/// Tail first: a prefix chain is worth nothing without its head. Callers therefore insert and touch
/// the pages of one chain from last to first, and every policy hands out the last ones before the
/// head.
///
/// Threads: one (the pool's owner). Ownership: none of the pages, only of its own lists.
/// Units: capacity and lengths in bytes. Errors: none; a slot that is inserted twice, or touched
/// or erased without being resident, is an assertion.
/// Invariants: (1) a slot is resident from `insert` until `erase`, or until `victim` or
/// `untouched_victim` returned it;
/// (2) `victim` returns nothing only when no page is resident; (3) steady state allocates nothing.
class eviction_policy {
public:
  virtual ~eviction_policy() = default;

  /// Takes in a page: `key`, of `length_bytes`, lies in `slot` now. @pre `slot` is not resident.
  virtual void insert(slot_id slot, const page_key& key, std::uint32_t length_bytes) = 0;

  /// Notes that the page in `slot` was read. @pre `slot` is resident.
  virtual void touch(slot_id slot) = 0;

  /// Forgets the page in `slot`, which leaves the pool for another reason than eviction.
  ///
  /// @pre `slot` is resident.
  virtual void erase(slot_id slot) = 0;

  /// Removes and returns the page that should be evicted next; nothing when no page is resident.
  virtual std::optional<slot_id> victim() = 0;

  /// Removes and returns a page near the front of the order that was not touched since it was
  /// inserted and of whose slot `may_go` is true; nothing where there is none among the first few.
  virtual std::optional<slot_id> untouched_victim(const slot_test& may_go) = 0;
};

enum class eviction_kind : std::uint8_t {
  lru,
  s3fifo,
  automatic, ///< LRU or S3-FIFO, whichever sampled shadow caches show to be better.
};

/// Makes a policy for a pool of `capacity_bytes`. @pre `capacity_bytes` > 0
std::unique_ptr<eviction_policy> make_eviction_policy(eviction_kind kind,
                                                      std::uint64_t capacity_bytes);

} // namespace peercache::storage
