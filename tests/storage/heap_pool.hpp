#pragma once

#include "common/limits.hpp"
#include "common/page_key.hpp"
#include "storage/hold_table.hpp"
#include "storage/host_index.hpp"
#include "storage/slot_table.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace peercache::storage {

/// The memory of a pool, on the heap, for tests that need no shared memory. Without `with_pages` it
/// has no memory for the bytes of pages, for tests that look at entries only.
class heap_pool {
public:
  explicit heap_pool(std::uint32_t granules, bool with_pages = true)
      : entries_(granules), clients_(granules), hold_words_(granules),
        buckets_(host_index::buckets_for(granules)),
        pages_(with_pages ? granules * std::size_t{limits::granule_bytes} : 0),
        claimed_bytes_(granules * std::size_t{limits::granule_bytes}) {}

  slot_table slots() { return {entries_, clients_, {pages_.data(), claimed_bytes_}}; }
  /// The slot entries as they lie in memory, for tests that change them behind the owner's back.
  std::vector<slot_entry>& entries() { return entries_; }
  std::vector<client_entry>& clients() { return clients_; }
  host_index index() { return {buckets_, slots()}; }
  hold_table holds() { return {held_granules_max_, hold_account_, hold_words_}; }

private:
  std::vector<slot_entry> entries_;
  std::vector<client_entry> clients_;
  std::atomic<std::uint64_t> held_granules_max_{0};
  hold_block hold_account_{};
  std::vector<std::atomic<std::uint64_t>> hold_words_;
  std::vector<host_index::bucket> buckets_;
  std::vector<std::byte> pages_;
  std::size_t claimed_bytes_;
};

/// Returns the key with this number; its bits are as uniform as those of a digest.
inline page_key key_of(std::uint64_t number) {
  page_key key;
  auto word = number;
  for (std::size_t i = 0; i < key.bytes.size(); i += sizeof word) {
    word = (word + 0x9E3779B97F4A7C15u) * 0xBF58476D1CE4E5B9u;
    word ^= word >> 29;
    std::memcpy(key.bytes.data() + i, &word, sizeof word);
  }
  return key;
}

} // namespace peercache::storage
