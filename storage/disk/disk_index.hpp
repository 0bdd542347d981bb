#pragma once

#include "storage/disk/disk_store.hpp"

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <optional>
#include <unordered_map>

namespace peercache::storage {

/// Which durable pages a store has, where, and in which order they go.
/// Threads: one. Memory: beside the entry, 16 bytes a page, and as many for half of those that
/// went. Invariant: a key is there at most once.
class disk_index {
public:
  struct entry {
    disk_page page;
    std::uint64_t place = 0;    ///< The store's own: where the page lies.
    std::uint64_t sequence = 0; ///< The sequence of the page's record.
    std::uint64_t number = 0;   ///< The index's own: grows from page to page that it was told of.
  };

  const entry* find(const page_key& key) const;
  /// Inserts the page behind all others in the order; returns the entry that it replaces, if any.
  std::optional<entry> insert(const entry& made);
  /// Inserts as `insert` does, but before entries at the end whose records are newer: the order is
  /// that of the records, though they become durable in another one.
  std::optional<entry> insert_by_sequence(const entry& made);
  std::optional<entry> erase(const page_key& key);
  /// The page goes behind all others. @pre it is there
  void touch(const page_key& key);
  /// The one that goes first. @pre not empty
  const entry& oldest() const { return order_.front(); }

  std::size_t size() const noexcept { return entries_.size(); }
  bool empty() const noexcept { return order_.empty(); }
  std::uint64_t page_bytes() const noexcept { return page_bytes_; }

  /// Walks as disk_store::walk does. Pages read or replaced meanwhile move none that is to come.
  std::uint64_t walk(std::uint64_t after, std::uint32_t count,
                     const std::function<void(const disk_page&)>& visit) const;

private:
  /// A page in the order of the walk; null when it went.
  struct numbered {
    std::uint64_t number = 0;
    const entry* page = nullptr;
  };
  void leave_walk(std::uint64_t number);

  std::list<entry> order_;
  std::unordered_map<page_key, std::list<entry>::iterator> entries_;
  std::deque<numbered> walk_order_; ///< Pages in the order of a walk, gaps included; by number.
  std::size_t walk_gaps_ = 0;       ///< Entries of `walk_order_` whose page went.
  std::uint64_t numbers_ = 0;
  std::uint64_t page_bytes_ = 0;
};

} // namespace peercache::storage
