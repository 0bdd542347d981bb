#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

/// The inner loops of checksum and copy. Users include "common/checksum.hpp" or "common/copy.hpp"
/// instead.
namespace peercache::detail {

/// XXH3's state between stripes. A stripe is 64 bytes; 16 stripes are a block, after which the
/// accumulators are scrambled. (xxhash's doc/xxhash_spec.md, "XXH3 algorithm for long inputs".)
struct alignas(64) xxh3_accumulators {
  std::array<std::uint64_t, 8> lanes;
};

inline constexpr std::size_t stripe_bytes = 64;
inline constexpr std::size_t block_stripes = 16;
inline constexpr std::size_t block_bytes = block_stripes * stripe_bytes;
inline constexpr std::size_t secret_bytes = 192;
/// Distance between the secrets of two neighbouring stripes.
inline constexpr std::size_t secret_step_bytes = 8;
static_assert((secret_bytes - stripe_bytes) / secret_step_bytes == block_stripes);

/// The inner loops for one instruction set. All take ranges of any alignment that do not overlap;
/// none makes a store fence. Threads: any.
struct copy_kernels {
  const char* instruction_set;

  void (*copy)(std::byte* to, const std::byte* from, std::size_t size_bytes) noexcept;

  /// Adds stripes of one block to the state; the first stripe's secret is at `secret`. Does not
  /// scramble.
  void (*hash_stripes)(xxh3_accumulators& state, const std::byte* secret, const std::byte* from,
                       std::size_t stripes) noexcept;

  /// Adds whole blocks to the state and scrambles it after each.
  void (*hash_blocks)(xxh3_accumulators& state, const std::byte* secret, const std::byte* from,
                      std::size_t blocks) noexcept;

  /// Copies whole blocks and adds them to the state, in one pass over `from`. @pre blocks > 0
  void (*copy_and_hash_blocks)(xxh3_accumulators& state, const std::byte* secret, std::byte* to,
                               const std::byte* from, std::size_t blocks) noexcept;
};

extern const copy_kernels generic_kernels;
#if defined(__aarch64__)
extern const copy_kernels neon_kernels; ///< Kernels for arm64, of which every CPU has NEON.
#else
extern const copy_kernels avx2_kernels;   ///< Kernels for CPUs with AVX2.
extern const copy_kernels avx512_kernels; ///< Kernels for CPUs with AVX512F.
#endif

/// All kernels that this CPU can run, the fastest first; never empty.
std::span<const copy_kernels* const> usable_kernels() noexcept;

/// The fastest kernels that this CPU can run.
const copy_kernels& best_kernels() noexcept;

/// The functions `checksum_of` and `copy_page_and_checksum` with the kernels given; the copy makes
/// no fence.
std::uint64_t checksum_with(const copy_kernels& kernels, std::span<const std::byte> bytes) noexcept;
std::uint64_t copy_and_checksum_with(const copy_kernels& kernels, std::span<std::byte> to,
                                     std::span<const std::byte> from) noexcept;

} // namespace peercache::detail
