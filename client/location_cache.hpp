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

namespace peercache::client {

/// Remembers where pages were read or seen last, so that a repeated `get` asks no directory. An
/// entry may be out of date: the generation check of the read makes that safe, and the reader
/// erases stale entries.
///
/// Threads: any; a bucket is locked for the time of one look or one store. Units: capacity in keys,
/// about 112 bytes each, taken from the system when first stored: a look at a bucket that keeps
/// nothing touches none of its memory. Bound: 8 keys per bucket; the entry of a bucket that was
/// least recently stored or found gives way.
class location_cache {
public:
  /// @param capacity_keys rounded up to a power of two; 0 keeps nothing
  explicit location_cache(std::uint64_t capacity_keys);

  std::optional<directory::page_location> find(const page_key& key) noexcept;
  void store(const page_key& key, const directory::page_location& location) noexcept;
  /// Forgets `key` if its entry still names the fill of `stale`.
  void erase(const page_key& key, const directory::page_location& stale) noexcept;
  void erase(const page_key& key) noexcept;

private:
  struct entry {
    page_key key;
    directory::page_location location;
    std::uint32_t used_at = 0; ///< Clock of the last store or find; 0: the entry is empty.
  };
  static constexpr std::size_t ways = 8;
  struct bucket {
    std::array<entry, ways> entries;
  };
  static constexpr std::size_t stripes = 64;

  struct free_memory {
    void operator()(void* memory) const noexcept;
  };

  std::size_t index_of(const page_key& key) const noexcept { return key.prefix() & mask_; }
  std::mutex& lock_of(std::size_t index) noexcept { return locks_[index % stripes]; }
  /// The entry of `key`, or none. The caller holds the bucket's lock.
  entry* entry_of(std::size_t index, const page_key& key) noexcept;
  void forget(std::size_t index, entry& known) noexcept;

  // `mask_` is constant after construction.
  std::size_t mask_ = 0;

  // The members below are shared between threads: an entry is guarded by the lock of its bucket's
  // stripe. `clock_` may run unevenly, because it only orders entries.
  std::unique_ptr<bucket[], free_memory> buckets_;
  std::unique_ptr<std::uint8_t[], free_memory>
      kept_; ///< How many entries of each bucket are in use.
  std::array<std::mutex, stripes> locks_;
  std::atomic<std::uint32_t> clock_{1};
};

} // namespace peercache::client
