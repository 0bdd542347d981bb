#include "common/copy_kernels.hpp"

#include <bit>
#include <cstring>

namespace peercache::detail {
namespace {

static_assert(std::endian::native == std::endian::little);

/// Blocks that are copied and then hashed together: few enough that they are still in the
/// first-level cache when they are hashed.
constexpr std::size_t chunk_blocks = 8;

std::uint64_t load_word(const std::byte* from) noexcept {
  std::uint64_t word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

void copy(std::byte* to, const std::byte* from, std::size_t size_bytes) noexcept {
  if (size_bytes != 0)
    std::memcpy(to, from, size_bytes);
}

/// Adds stripes to XXH3's sums: each lane adds low half times high half of (data ^ secret), and its
/// neighbour adds the data themselves.
void hash_stripes(xxh3_accumulators& state, const std::byte* secret, const std::byte* from,
                  std::size_t stripes) noexcept {
  auto sums = state.lanes;
  for (; stripes > 0; --stripes) {
    for (std::size_t lane = 0; lane < sums.size(); ++lane) {
      auto data = load_word(from + 8 * lane);
      auto keyed = data ^ load_word(secret + 8 * lane);
      sums[lane ^ 1] += data;
      sums[lane] += (keyed & 0xffffffff) * (keyed >> 32);
    }
    from += stripe_bytes;
    secret += secret_step_bytes;
  }
  state.lanes = sums;
}

void scramble(xxh3_accumulators& state, const std::byte* secret) noexcept {
  constexpr std::uint64_t prime = 0x9E3779B1;
  for (std::size_t lane = 0; lane < state.lanes.size(); ++lane) {
    auto& sum = state.lanes[lane];
    sum = (sum ^ (sum >> 47) ^ load_word(secret + 8 * lane)) * prime;
  }
}

void hash_blocks(xxh3_accumulators& state, const std::byte* secret, const std::byte* from,
                 std::size_t blocks) noexcept {
  for (; blocks > 0; --blocks, from += block_bytes) {
    hash_stripes(state, secret, from, block_stripes);
    scramble(state, secret + secret_bytes - stripe_bytes);
  }
}

void copy_and_hash_blocks(xxh3_accumulators& state, const std::byte* secret, std::byte* to,
                          const std::byte* from, std::size_t blocks) noexcept {
  while (blocks > 0) {
    auto now = blocks < chunk_blocks ? blocks : chunk_blocks;
    std::memcpy(to, from, now * block_bytes);
    hash_blocks(state, secret, from, now);
    to += now * block_bytes;
    from += now * block_bytes;
    blocks -= now;
  }
}

} // namespace

const copy_kernels generic_kernels = {"generic", copy, hash_stripes, hash_blocks,
                                      copy_and_hash_blocks};

} // namespace peercache::detail
