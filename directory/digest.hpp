#pragma once

#include "common/page_key.hpp"
#include "directory/page_location.hpp"

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

/// Digests are sums over facts; a fact says that a process has a page in memory or on disk. By
/// comparing digests a producer and a shard find out where they disagree without exchanging every
/// record (directory/record_repair.hpp). All nodes must compute the same sums: bump `wire_version`
/// with any change here.
namespace peercache::directory {

inline constexpr std::uint32_t digest_ranges = 64;
static_assert(digest_ranges == 64, "a set of ranges is one 64-bit word");

/// The sum over the facts of one process about the keys of one range.
struct range_digest {
  std::uint64_t sum = 0; ///< Sum of the facts' digests; their order does not matter.
  std::uint64_t count = 0;
  bool operator==(const range_digest&) const = default;

  void add(std::uint64_t fact) noexcept {
    sum += fact;
    ++count;
  }
  void remove(std::uint64_t fact) noexcept {
    sum -= fact;
    --count;
  }
};
static_assert(sizeof(range_digest) == 16);
using holder_digest = std::array<range_digest, digest_ranges>;

/// Returns the range of a key. Keys are uniform, so all ranges are about equally large.
constexpr std::uint32_t range_of(std::uint64_t key_prefix) noexcept {
  return static_cast<std::uint32_t>(key_prefix >> 58);
}

/// Returns the digest of one fact. A page on disk counts without its generation: its producer may
/// no longer know the generation under which it published the page.
inline std::uint64_t fact_digest(const page_key& key, generation gen, tier where) noexcept {
  std::uint64_t second;
  std::memcpy(&second, key.bytes.data() + 8, sizeof second);
  auto mixed = (key.prefix() ^ std::rotl(second, 31)) * 0x9e3779b97f4a7c15ull;
  mixed ^= where == tier::disk ? 0x5851f42d4c957f2dull : gen.value * 0xbf58476d1ce4e5b9ull;
  mixed = (mixed ^ (mixed >> 29)) * 0x94d049bb133111ebull;
  return mixed ^ (mixed >> 32);
}

} // namespace peercache::directory
