#pragma once

#include "storage/disk/disk_store.hpp"

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <optional>
#include <unordered_map>

namespace peercache::storage {

/// The durable pages of a store: where each lies, and in which order they are evicted.
/// Threads: one. Memory: an entry and 16 bytes per page, and 16 bytes for each gap that a removed
/// page leaves; there are at most as many gaps as pages. Invariant: a key has at most one entry.
class disk_index {
public:
  struct entry {
    disk_page page;
    std::uint64_t place = 0;    ///< Where the page lies; only the store knows how to read it.
    std::uint64_t sequence = 0; ///< The sequence of the page's record.
    /// The index's own number of the entry, which grows with each insert; a walk follows it.
    std::uint64_t number = 0;
  };

  const entry* find(const page_key& key) const;
  /// Inserts the entry at the end of the order of eviction; returns the entry of the same key that
  /// it replaces, if any.
  std::optional<entry> insert(const entry& made);
  /// Inserts as `insert` does, but before entries at the end whose records are newer: the order is
  /// that in which records were made, even if they become durable in another order.
  std::optional<entry> insert_by_sequence(const entry& made);
  std::optional<entry> erase(const page_key& key);
  /// Moves the page to the end of the order. @pre the key has an entry
  void touch(const page_key& key);
  /// The entry that is evicted first. @pre the index is not empty
  const entry& oldest() const { return order_.front(); }

  std::size_t size() const noexcept { return entries_.size(); }
  bool empty() const noexcept { return order_.empty(); }
  std::uint64_t page_bytes() const noexcept { return page_bytes_; }

  /// Walks as disk_store::walk does. A page that is read or replaced between two calls does not
  /// change the place of the pages that are still to come.
  std::uint64_t walk(std::uint64_t after, std::uint32_t count,
                     const std::function<void(const disk_page&)>& visit) const;

private:
  /// An entry in the order of the walk; `page` is null when the entry was removed.
  struct numbered {
    std::uint64_t number = 0;
    const entry* page = nullptr;
  };
  void leave_walk(std::uint64_t number);

  std::list<entry> order_;
  std::unordered_map<page_key, std::list<entry>::iterator> entries_;
  /// Entries by number, the order of a walk, with gaps where entries were removed.
  std::deque<numbered> walk_order_;
  std::size_t walk_gaps_ = 0; ///< Elements of `walk_order_` whose entry was removed.
  std::uint64_t numbers_ = 0;
  std::uint64_t page_bytes_ = 0;
};

} // namespace peercache::storage
