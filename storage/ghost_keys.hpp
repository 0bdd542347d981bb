#pragma once

#include "storage/probe_cells.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace peercache::storage {

/// Remembers which keys were evicted lately: a FIFO of at most `limit` key digests without pages.
/// The caller gives the limit with each call, because it is the number of pages that are resident
/// just then.
///
/// Keys are kept as 32-bit fingerprints in a ring, found through a table of ring positions. The
/// oldest key is forgotten first, never a random one: a hashed set that forgets an entry when a
/// bucket is full is the usual choice, but one page that is missed in the middle of a prefix chain
/// costs the whole rest of the chain (1.1 points of hit rate, see bench/README.md). Keys taken from
/// the middle leave gaps in the ring; when the gaps fill a fifth to two fifths of the ring, the
/// oldest keys are forgotten early. A key that was never remembered is taken for a remembered one
/// once in 2^32 / limit calls.
///
/// Threads: one. Size: 10.3 to 13.8 bytes for each page of the largest limit so far.
/// Invariants: the table holds `size_` positions, each of a sequence number in [oldest_, next_), a
/// span no longer than the ring.
class ghost_keys {
public:
  void remember(std::uint64_t key_digest, std::size_t limit);

  /// Whether the key was remembered; forgets the key.
  bool take(std::uint64_t key_digest, std::size_t limit) noexcept;

  std::size_t size() const noexcept { return size_; }
  std::size_t memory_bytes() const noexcept;

private:
  std::uint32_t position_of(std::uint64_t sequence) const noexcept;
  std::uint32_t find(std::uint32_t fingerprint) const noexcept;
  void push(std::uint32_t fingerprint) noexcept;
  void forget(std::uint32_t position) noexcept;
  void forget_oldest() noexcept;
  void forget_beyond(std::size_t limit) noexcept;
  void grow(std::size_t limit);

  probe_cells positions_;
  /// The fingerprints of remembered keys; in the gaps, outdated fingerprints.
  std::vector<std::uint32_t> ring_;
  /// The sequence number of the ring's oldest entry, which may be a gap.
  std::uint64_t oldest_ = 0;
  std::uint64_t next_ = 0;
  std::size_t size_ = 0;
};

} // namespace peercache::storage
