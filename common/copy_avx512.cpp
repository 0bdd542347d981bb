#include "common/copy_kernels.hpp"

// g++ 12's own intrinsics start from a deliberately undefined register and warn about it (GCC bug
// 105593).
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include <immintrin.h>

#define PEERCACHE_TARGET __attribute__((target("avx512f"), always_inline))
#define PEERCACHE_KERNEL_NAMESPACE avx512

namespace peercache::detail::avx512 {

struct stripe {
  __m512i bits;
};
using accumulators = stripe;

PEERCACHE_TARGET inline stripe load_stripe(const std::byte* from) noexcept {
  return {_mm512_loadu_si512(from)};
}

PEERCACHE_TARGET inline stripe load_once(const std::byte* from) noexcept {
  return load_stripe(from);
}

PEERCACHE_TARGET inline void stream_stripe(std::byte* to, stripe data) noexcept {
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), data.bits);
}

PEERCACHE_TARGET inline accumulators load_accumulators(const xxh3_accumulators& state) noexcept {
  return {_mm512_load_si512(state.lanes.data())};
}

PEERCACHE_TARGET inline void store_accumulators(xxh3_accumulators& state,
                                                accumulators sums) noexcept {
  _mm512_store_si512(state.lanes.data(), sums.bits);
}

/// Adds a stripe to XXH3's sums: each lane adds low half times high half of (data ^ secret), and
/// its neighbour adds the data themselves.
PEERCACHE_TARGET inline void accumulate(accumulators& sums, stripe data, stripe secret) noexcept {
  auto keyed = _mm512_xor_si512(data.bits, secret.bits);
  auto product = _mm512_mul_epu32(keyed, _mm512_srli_epi64(keyed, 32));
  auto swapped = _mm512_shuffle_epi32(data.bits, _MM_PERM_BADC);
  sums.bits = _mm512_add_epi64(product, _mm512_add_epi64(sums.bits, swapped));
}

/// Scrambles XXH3's sums: lane = (lane ^ lane >> 47 ^ secret) * prime. The 64-bit product is put
/// together from 32-bit ones.
PEERCACHE_TARGET inline void scramble(accumulators& sums, stripe secret) noexcept {
  constexpr long long prime = 0x9E3779B1;
  const auto primes = _mm512_set1_epi64(prime);
  auto mixed =
      _mm512_xor_si512(_mm512_xor_si512(sums.bits, _mm512_srli_epi64(sums.bits, 47)), secret.bits);
  auto low = _mm512_mul_epu32(mixed, primes);
  auto high = _mm512_mul_epu32(_mm512_srli_epi64(mixed, 32), primes);
  sums.bits = _mm512_add_epi64(low, _mm512_slli_epi64(high, 32));
}

} // namespace peercache::detail::avx512

#include "common/copy_kernels_simd.hpp"

namespace peercache::detail {

const copy_kernels avx512_kernels = {"avx512", avx512::copy, avx512::hash_stripes,
                                     avx512::hash_blocks, avx512::copy_and_hash_blocks};

} // namespace peercache::detail
