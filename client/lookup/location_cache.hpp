#pragma once

#include "client/lookup/zeroed_array.hpp"
#include "common/page_key.hpp"
#include "directory/page_location.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>

namespace peercache::client {

/// Remembers where pages were read or seen last, so that a repeated `get` asks no directory. An
/// entry may be out of date: the generation check of the read makes that safe, and the reader
/// erases stale entries.
///
/// Threads: any; a bucket is locked for the time of one look or one store. Units: capacity in keys,
/// 8 bytes each, and 88 bytes for each key that is kept, taken from the system when first stored.
/// Bound: 8 keys per bucket; the entry of a bucket that was least recently stored or found gives
/// way. Most of a look's time is that of its cache misses: the head of a bucket, one cache line,
/// tells which entry to read, so that a key that is not kept costs one; and entries lie in the
/// order in which they were first stored, so that keys of one chain share lines and pages of
/// memory. A cache for whose memory there is no room keeps nothing.
class location_cache {
public:
  /// The entries of this many keys lie in a CPU's cache, with room for much else.
  static constexpr std::size_t stores_ahead = 64;

  /// @param capacity_keys rounded up to a power of two; 0 keeps nothing
  explicit location_cache(std::uint64_t capacity_keys);

  std::optional<directory::page_location> find(const page_key& key) noexcept;
  void store(const page_key& key, const directory::page_location& location) noexcept;
  /// Forgets `key` if its entry still names the fill of `stale`.
  void erase(const page_key& key, const directory::page_location& stale) noexcept;
  void erase(const page_key& key) noexcept;
  /// Begins to load what a look at this key, or a store, needs first. Call some keys ahead.
  void prefetch(const page_key& key) const noexcept;
  /// Begins to load all that stores of these keys need, the first `stores_ahead` of them: then the
  /// stores have no cache misses. Call it in a wait for the keys' locations, and again before each
  /// further `stores_ahead` stores.
  void prefetch_for_stores(std::span<const page_key> keys) noexcept;

private:
  struct entry {
    page_key key;
    directory::page_location location;
  };
  static constexpr std::size_t ways = 8;
  static constexpr std::size_t stripes = 64;
  /// A bucket, and all that a look reads of one whose entries are not the key's. Each word has a
  /// byte for each way.
  struct alignas(64) head {
    /// A byte of the entry's key, never 0; 0: the way is empty.
    std::atomic<std::uint64_t> tags;
    /// Bit `i` of a way's byte: the way was used after way `i` of the bucket.
    std::atomic<std::uint64_t> used_after;
    /// The number of each way's entry, which it keeps; 0: the way was never used.
    std::array<std::atomic<std::uint32_t>, ways> numbers;
  };
  static_assert(sizeof(head) == 64);

  std::size_t index_of(const page_key& key) const noexcept { return key.prefix() & mask_; }
  std::mutex& lock_of(std::size_t index) noexcept { return locks_[index % stripes]; }
  entry& entry_at(std::size_t index, std::size_t way) const noexcept {
    return entries_[heads_[index].numbers[way].load(std::memory_order_relaxed)];
  }
  /// The way of the entry of `key` in its bucket; `ways` when there is none. The caller holds the
  /// bucket's lock.
  std::size_t way_of(std::size_t index, const page_key& key) const noexcept;
  /// The way that the next new key of the bucket takes: an empty one, else the least recently used.
  std::size_t victim_of(std::size_t index) const noexcept;
  /// Gives a way an entry, unless it has one. The caller holds the bucket's lock.
  void give_entry(std::size_t index, std::size_t way) noexcept;
  /// Sets the tag of one way. The caller holds the bucket's lock.
  void set_tag(std::size_t index, std::size_t way, std::uint8_t tag) noexcept;
  void prefetch_entry_for(const page_key& key) noexcept;
  void note_use(std::size_t index, std::size_t way) noexcept;

  // `mask_` is constant after construction.
  std::size_t mask_ = 0;

  // The members below are shared between threads: a bucket is guarded by the lock of its stripe.
  // Prefetches read heads without it, because the worst that a wrong guess does is a cache miss.
  zeroed_array<head> heads_;
  zeroed_array<entry> entries_; ///< The one with the number 0 is nobody's.
  std::atomic<std::uint32_t> entries_given_{0};
  std::array<std::mutex, stripes> locks_;
};

} // namespace peercache::client
