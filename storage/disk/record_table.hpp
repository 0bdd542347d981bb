#pragma once

#include "storage/disk/disk_index.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

namespace peercache::storage {

/// The records of a store that keeps each page by itself: durable records, which of these are being
/// read, and records that are out of the index while somebody still reads them or the directory
/// still names them. Records are told apart by their sequence.
///
///   indexed --erase, replaced--------------------------> released, as soon as nobody reads it
///   indexed --begin_eviction--> leaving --finish_eviction--> released, as soon as nobody reads it
///
/// Threads: one. Invariant: each record that was inserted is released at most once, and not while
/// it is read.
class record_table {
public:
  using entry = disk_index::entry;

  const disk_index& index() const noexcept { return index_; }
  const entry* find(const page_key& key) const { return index_.find(key); }

  /// Inserts a record; returns the record of the same key that it replaces, if any, which is
  /// released.
  std::optional<entry> insert(const entry& made);
  /// Takes the record of a key out of the index and releases it. Nothing when the key has none.
  std::optional<entry> erase(const page_key& key);
  /// Moves the page behind all others in the order of eviction. @pre the key has a record
  void touch(const page_key& key) { index_.touch(key); }

  /// Keeps the record from being released until `unpin` was called as often as `pin`.
  void pin(std::uint64_t sequence) { ++pins_[sequence].count; }
  void unpin(std::uint64_t sequence);
  std::size_t pinned() const noexcept { return pins_.size(); }

  /// Takes the records that are first in the order out of the index, one by one, until none is left
  /// or `enough` says so; calls `goes` for each.
  disk_eviction begin_eviction(const std::function<bool()>& enough,
                               const std::function<void(const entry&)>& goes);
  /// Releases the records of an eviction; an unknown ticket changes nothing.
  void finish_eviction(std::uint64_t ticket);

  /// Records whose room may be used again; each is returned one time.
  std::vector<entry> take_released() { return std::exchange(released_, {}); }
  bool has_released() const noexcept { return !released_.empty(); }

private:
  struct pin_count {
    std::uint32_t count = 0;
    /// The record, when it is out of the index and is released with its last `unpin`.
    std::optional<entry> waits;
  };
  void release(const entry& gone);

  disk_index index_;
  std::unordered_map<std::uint64_t, pin_count> pins_;
  /// Records of evictions that were begun and not finished, by ticket.
  std::unordered_map<std::uint64_t, std::vector<entry>> leaving_;
  std::uint64_t last_ticket_ = 0;
  std::vector<entry> released_;
};

} // namespace peercache::storage
