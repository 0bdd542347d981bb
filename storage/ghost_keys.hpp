#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace peercache::storage {

/// Remembers which keys were evicted lately: a FIFO of key digests without pages. A key is
/// remembered while fewer than `limit` others have been remembered after it; the caller gives the
/// limit with each call, because it is the number of pages that are resident just then.
///
/// Kept as 32-bit fingerprints in buckets of one cache line, with a sequence number in place of
/// links: an old entry is simply overwritten. A full bucket forgets its oldest entry early (1 to 5
/// % of the entries), and a foreign key is taken for a remembered one once in 2^32 / limit; both
/// cost one misplaced page at most.
///
/// Threads: one. Size: 10.7 to 14.2 bytes for each page of the largest limit so far.
class ghost_keys {
public:
  void remember(std::uint64_t key_digest, std::size_t limit);

  /// Whether the key was remembered; it is no longer.
  bool take(std::uint64_t key_digest, std::size_t limit) noexcept;

  std::size_t memory_bytes() const noexcept { return buckets_.capacity() * sizeof(bucket); }

private:
  struct entry {
    std::uint32_t fingerprint = 0;
    std::uint32_t stamp = 0; ///< The sequence number when it was remembered; 0: empty.
  };
  struct alignas(64) bucket {
    std::array<entry, 8> entries{};
  };

  /// Empty entries are infinitely old.
  std::uint64_t age_of(const entry& it) const noexcept;
  bucket& bucket_of(std::uint32_t fingerprint) noexcept;
  entry& oldest_in(bucket& where) const noexcept;
  void grow(std::size_t limit);

  std::vector<bucket> buckets_;
  std::uint32_t stamp_ = 0;
};

} // namespace peercache::storage
