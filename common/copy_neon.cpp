#include "common/copy_kernels.hpp"

#include <arm_neon.h>

// Every arm64 CPU has NEON.
#define PEERCACHE_TARGET __attribute__((always_inline))
#define PEERCACHE_KERNEL_NAMESPACE neon

namespace peercache::detail::neon {

struct stripe {
  uint64x2_t quarters[4];
};
using accumulators = stripe;

using stripe_memory = std::byte[stripe_bytes];

PEERCACHE_TARGET inline stripe load_stripe(const std::byte* from) noexcept {
  stripe data;
  for (int i = 0; i < 4; ++i)
    data.quarters[i] =
        vreinterpretq_u64_u8(vld1q_u8(reinterpret_cast<const uint8_t*>(from) + 16 * i));
  return data;
}

/// LDNP keeps its bytes out of the caches. It is not even ordered behind the load that its address
/// came from; the acquire fences and loads of readers order it as any other load.
PEERCACHE_TARGET inline stripe load_once(const std::byte* from) noexcept {
  stripe data;
  asm("ldnp %q0, %q1, [%4]\n\tldnp %q2, %q3, [%4, #32]"
      : "=&w"(data.quarters[0]), "=&w"(data.quarters[1]), "=&w"(data.quarters[2]),
        "=&w"(data.quarters[3])
      : "r"(from), "m"(*reinterpret_cast<const stripe_memory*>(from)));
  return data;
}

PEERCACHE_TARGET inline void stream_stripe(std::byte* to, stripe data) noexcept {
  asm("stnp %q1, %q2, [%5]\n\tstnp %q3, %q4, [%5, #32]"
      : "=m"(*reinterpret_cast<stripe_memory*>(to))
      : "w"(data.quarters[0]), "w"(data.quarters[1]), "w"(data.quarters[2]), "w"(data.quarters[3]),
        "r"(to));
}

PEERCACHE_TARGET inline accumulators load_accumulators(const xxh3_accumulators& state) noexcept {
  accumulators sums;
  for (int i = 0; i < 4; ++i)
    sums.quarters[i] = vld1q_u64(state.lanes.data() + 2 * i);
  return sums;
}

PEERCACHE_TARGET inline void store_accumulators(xxh3_accumulators& state,
                                                accumulators sums) noexcept {
  for (int i = 0; i < 4; ++i)
    vst1q_u64(state.lanes.data() + 2 * i, sums.quarters[i]);
}

/// Adds a stripe to XXH3's sums: each lane adds low half times high half of (data ^ secret), and
/// its neighbour adds the data themselves.
PEERCACHE_TARGET inline void accumulate(accumulators& sums, stripe data, stripe secret) noexcept {
  for (int i = 0; i < 4; ++i) {
    auto keyed = veorq_u64(data.quarters[i], secret.quarters[i]);
    auto swapped = vextq_u64(data.quarters[i], data.quarters[i], 1);
    sums.quarters[i] =
        vmlal_u32(vaddq_u64(sums.quarters[i], swapped), vmovn_u64(keyed), vshrn_n_u64(keyed, 32));
  }
}

/// Scrambles XXH3's sums: lane = (lane ^ lane >> 47 ^ secret) * prime. The 64-bit product is put
/// together from 32-bit ones.
PEERCACHE_TARGET inline void scramble(accumulators& sums, stripe secret) noexcept {
  const auto primes = vdup_n_u32(0x9E3779B1);
  for (int i = 0; i < 4; ++i) {
    auto mixed = veorq_u64(veorq_u64(sums.quarters[i], vshrq_n_u64(sums.quarters[i], 47)),
                           secret.quarters[i]);
    auto high = vshlq_n_u64(vmull_u32(vshrn_n_u64(mixed, 32), primes), 32);
    sums.quarters[i] = vmlal_u32(high, vmovn_u64(mixed), primes);
  }
}

} // namespace peercache::detail::neon

#include "common/copy_kernels_simd.hpp"

namespace peercache::detail {

const copy_kernels neon_kernels = {"neon", neon::copy, neon::hash_stripes, neon::hash_blocks,
                                   neon::copy_and_hash_blocks};

} // namespace peercache::detail
