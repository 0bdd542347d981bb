#pragma once

#include "common/page_key.hpp"
#include "directory/page_location.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

namespace peercache::client {

/// Remembers where pages were read or seen last, so that a repeated `get` asks no directory. An
/// entry may be out of date: the generation check of the read makes that safe, and the reader
/// erases stale entries.
///
/// Threads: any; a bucket is locked for the time of one look or one store. Units: capacity in keys,
/// about 93 bytes each, taken from the system when first stored. Bound: 8 keys per bucket; the
/// entry of a bucket that was least recently stored or found gives way. Most of a look's time is
/// that of its cache misses: tags, a byte for each key, tell which entries to read, so that a key
/// that is not kept costs one. A cache for whose memory there is no room keeps nothing.
class location_cache {
public:
  /// The entries of this many keys lie in a CPU's cache, with room for much else.
  static constexpr std::size_t stores_ahead = 256;

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
  template <class Each>
  using bucket = std::array<Each, ways>;
  static constexpr std::size_t stripes = 64;

  struct free_memory {
    void operator()(void* memory) const noexcept;
  };

  std::size_t index_of(const page_key& key) const noexcept { return key.prefix() & mask_; }
  std::mutex& lock_of(std::size_t index) noexcept { return locks_[index % stripes]; }
  /// The way of the entry of `key` in its bucket; `ways` when there is none. The caller holds the
  /// bucket's lock.
  std::size_t way_of(std::size_t index, const page_key& key) const noexcept;
  /// The way that the next new key of the bucket takes: an empty one, else the least recently used.
  std::size_t victim_of(std::size_t index) const noexcept;
  void prefetch_entry_for(const page_key& key) noexcept;
  void note_use(std::size_t index, std::size_t way) noexcept;

  // `mask_` is constant after construction.
  std::size_t mask_ = 0;

  // The members below are shared between threads: an entry is guarded by the lock of its bucket's
  // stripe. `clock_` may run unevenly, because it only orders entries.
  /// A byte of each entry's key, never 0; 0: the entry is empty.
  std::unique_ptr<bucket<std::uint8_t>[], free_memory> tags_;
  std::unique_ptr<bucket<std::uint32_t>[], free_memory> used_at_; ///< Clocks of the last uses.
  std::unique_ptr<bucket<entry>[], free_memory> entries_;
  std::array<std::mutex, stripes> locks_;
  std::atomic<std::uint32_t> clock_{1};
};

} // namespace peercache::client
