#pragma once

#include "storage/disk/disk_index.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

namespace peercache::storage {

/// The records of a store in which each page lies by itself: the durable ones, which of them are
/// read, and those that are out of the index while somebody still reads them or the directory still
/// names them. Records are told apart by their sequence.
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

  /// Inserts a record; returns the one that it replaces, if any, which is released.
  std::optional<entry> insert(const entry& made);
  /// The page is released. None when it was not there.
  std::optional<entry> erase(const page_key& key);
  /// The page goes behind all others. @pre it is there
  void touch(const page_key& key) { index_.touch(key); }

  /// The record is not released before `unpin` is called as often.
  void pin(std::uint64_t sequence) { ++pins_[sequence].count; }
  void unpin(std::uint64_t sequence);
  std::size_t pinned() const noexcept { return pins_.size(); }

  /// Takes out the first in the order, one by one, until there is none or it is enough.
  disk_eviction begin_eviction(const std::function<bool()>& enough,
                               const std::function<void(const entry&)>& goes);
  /// Ends an eviction; an unknown ticket changes nothing.
  void finish_eviction(std::uint64_t ticket);

  /// Records whose room may be used again; each is told once.
  std::vector<entry> take_released() { return std::exchange(released_, {}); }
  bool has_released() const noexcept { return !released_.empty(); }

private:
  struct pin_count {
    std::uint32_t count = 0;
    std::optional<entry> waits; ///< A record that waits for its last reader.
  };
  void release(const entry& gone);

  disk_index index_;
  std::unordered_map<std::uint64_t, pin_count> pins_;
  /// Records that are being evicted, by ticket.
  std::unordered_map<std::uint64_t, std::vector<entry>> leaving_;
  std::uint64_t last_ticket_ = 0;
  std::vector<entry> released_;
};

} // namespace peercache::storage
