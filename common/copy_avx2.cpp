#include "common/copy_kernels.hpp"

#include <immintrin.h>

#define PEERCACHE_TARGET __attribute__((target("avx2"), always_inline))
#define PEERCACHE_KERNEL_NAMESPACE avx2

namespace peercache::detail::avx2 {

struct stripe {
  __m256i low;
  __m256i high;
};
using accumulators = stripe;

PEERCACHE_TARGET inline stripe load_stripe(const std::byte* from) noexcept {
  auto* halves = reinterpret_cast<const __m256i*>(from);
  return {_mm256_loadu_si256(halves), _mm256_loadu_si256(halves + 1)};
}

PEERCACHE_TARGET inline stripe load_once(const std::byte* from) noexcept {
  return load_stripe(from);
}

PEERCACHE_TARGET inline void stream_stripe(std::byte* to, stripe data) noexcept {
  auto* halves = reinterpret_cast<__m256i*>(to);
  _mm256_stream_si256(halves, data.low);
  _mm256_stream_si256(halves + 1, data.high);
}

PEERCACHE_TARGET inline accumulators load_accumulators(const xxh3_accumulators& state) noexcept {
  auto* halves = reinterpret_cast<const __m256i*>(state.lanes.data());
  return {_mm256_load_si256(halves), _mm256_load_si256(halves + 1)};
}

PEERCACHE_TARGET inline void store_accumulators(xxh3_accumulators& state,
                                                accumulators sums) noexcept {
  auto* halves = reinterpret_cast<__m256i*>(state.lanes.data());
  _mm256_store_si256(halves, sums.low);
  _mm256_store_si256(halves + 1, sums.high);
}

/// Adds data to XXH3's sums: each lane adds low half times high half of (data ^ secret), and its
/// neighbour adds the data themselves.
PEERCACHE_TARGET inline __m256i accumulate_half(__m256i sums, __m256i data,
                                                __m256i secret) noexcept {
  auto keyed = _mm256_xor_si256(data, secret);
  auto product = _mm256_mul_epu32(keyed, _mm256_srli_epi64(keyed, 32));
  auto swapped = _mm256_shuffle_epi32(data, _MM_SHUFFLE(1, 0, 3, 2));
  return _mm256_add_epi64(product, _mm256_add_epi64(sums, swapped));
}

PEERCACHE_TARGET inline void accumulate(accumulators& sums, stripe data, stripe secret) noexcept {
  sums.low = accumulate_half(sums.low, data.low, secret.low);
  sums.high = accumulate_half(sums.high, data.high, secret.high);
}

/// Scrambles XXH3's sums: lane = (lane ^ lane >> 47 ^ secret) * prime. The 64-bit product is put
/// together from 32-bit ones.
PEERCACHE_TARGET inline __m256i scramble_half(__m256i sums, __m256i secret) noexcept {
  constexpr long long prime = 0x9E3779B1;
  const auto primes = _mm256_set1_epi64x(prime);
  auto mixed = _mm256_xor_si256(_mm256_xor_si256(sums, _mm256_srli_epi64(sums, 47)), secret);
  auto low = _mm256_mul_epu32(mixed, primes);
  auto high = _mm256_mul_epu32(_mm256_srli_epi64(mixed, 32), primes);
  return _mm256_add_epi64(low, _mm256_slli_epi64(high, 32));
}

PEERCACHE_TARGET inline void scramble(accumulators& sums, stripe secret) noexcept {
  sums.low = scramble_half(sums.low, secret.low);
  sums.high = scramble_half(sums.high, secret.high);
}

} // namespace peercache::detail::avx2

#include "common/copy_kernels_simd.hpp"

namespace peercache::detail {

const copy_kernels avx2_kernels = {"avx2", avx2::copy, avx2::hash_stripes, avx2::hash_blocks,
                                   avx2::copy_and_hash_blocks};

} // namespace peercache::detail
