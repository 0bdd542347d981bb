#pragma once

/// The loops of copy_avx512.cpp, copy_avx2.cpp and copy_neon.cpp. Each of these files includes this
/// one after it has defined
///   PEERCACHE_TARGET  the attributes of functions that may use the instruction set; they are
///                     inlined always, so that the accumulators stay in registers
///   stripe            64 bytes in registers: load_stripe, load_once (bytes that need not stay in
///                     the CPU's caches), stream_stripe
///   accumulators      load_accumulators, store_accumulators, accumulate, scramble
/// in namespace peercache::detail::<instruction set>, to which this file adds. Function attributes
/// and not compiler flags choose the instruction set: a flag would also compile the inline
/// functions of headers for it, and the linker might keep that copy for all CPUs.

#include "common/copy_kernels.hpp"

#include <cstring>

namespace peercache::detail {
namespace PEERCACHE_KERNEL_NAMESPACE {

/// The shortest copy that is streamed: below it the store fence and the partial lines at both ends
/// cost more than streaming saves.
inline constexpr std::size_t streamed_bytes_min = 512;

/// How many bytes ahead of the reads the loops prefetch. The CPU's own prefetchers stop at the end
/// of a 4 KiB page of memory and must be started in each. The distance is not a multiple of 4 KiB:
/// where source and destination lie alike in their memory pages, as page-aligned buffers do, a
/// prefetch whose lower 12 address bits are those of the stores in flight waits for these stores (a
/// fifth of the speed; bench/README.md).
inline constexpr std::size_t prefetch_ahead_bytes = 4096 + 256;

/// How many blocks at the start of a copied range have all their lines prefetched, until the CPU's
/// own prefetchers have found the pattern. Later blocks have one line prefetched each, as more
/// would only fill the queue of cache misses.
inline constexpr std::size_t ramp_blocks = 16;

inline std::size_t bytes_to_line(const std::byte* to) noexcept {
  return (stripe_bytes - reinterpret_cast<std::uintptr_t>(to) % stripe_bytes) % stripe_bytes;
}

/// Prefetches all lines of a block. Inlined always: g++ takes a function that only prefetches for a
/// function without effect, and drops the call.
PEERCACHE_TARGET inline void prefetch_block(const std::byte* from) noexcept {
#pragma GCC unroll 16
  for (std::size_t i = 0; i < block_stripes; ++i)
    __builtin_prefetch(from + i * stripe_bytes, 0, 0);
}

/// What `run_blocks` does with each block, known at compile time.
enum class job { copy, hash, copy_and_hash, copy_shifted_and_hash };

/// Works on one block: streams the lines from `from + shift` to `to`, which is line aligned, and
/// hashes the stripes from `from`. When `shift` is 0, one load serves the copy and the hash.
template <job todo>
PEERCACHE_TARGET inline void run_block(accumulators& sums, const std::byte* secret, std::byte* to,
                                       const std::byte* from, std::size_t shift) noexcept {
#pragma GCC unroll 16
  for (std::size_t i = 0; i < block_stripes; ++i) {
    const auto* at = from + i * stripe_bytes;
    auto data = todo == job::copy || todo == job::copy_and_hash ? load_once(at) : load_stripe(at);
    if constexpr (todo == job::copy_shifted_and_hash)
      stream_stripe(to + i * stripe_bytes, load_stripe(from + shift + i * stripe_bytes));
    else if constexpr (todo != job::hash)
      stream_stripe(to + i * stripe_bytes, data);
    if constexpr (todo != job::copy)
      accumulate(sums, data, load_stripe(secret + i * secret_step_bytes));
  }
  if constexpr (todo != job::copy)
    scramble(sums, load_stripe(secret + secret_bytes - stripe_bytes));
}

template <job todo>
PEERCACHE_TARGET inline void run_blocks(accumulators& sums, const std::byte* secret, std::byte* to,
                                        const std::byte* from, std::size_t shift,
                                        std::size_t blocks) noexcept {
  constexpr std::size_t ahead_blocks = (prefetch_ahead_bytes + block_bytes - 1) / block_bytes;
  for (std::size_t block = 0; block < blocks; ++block) {
    const std::byte* source = from + block * block_bytes;
    if (block + ahead_blocks < blocks) {
      if (block < ramp_blocks)
        prefetch_block(source + prefetch_ahead_bytes);
      else
        __builtin_prefetch(source + prefetch_ahead_bytes, 0, 0);
    }
    if constexpr (todo == job::hash)
      run_block<todo>(sums, secret, nullptr, source, 0);
    else
      run_block<todo>(sums, secret, to + block * block_bytes, source, shift);
  }
}

PEERCACHE_TARGET inline void copy(std::byte* to, const std::byte* from,
                                  std::size_t size_bytes) noexcept {
  if (size_bytes == 0)
    return;
  if (size_bytes < streamed_bytes_min) {
    std::memcpy(to, from, size_bytes);
    return;
  }
  auto done = bytes_to_line(to);
  if (done != 0)
    std::memcpy(to, from, done);
  auto blocks = (size_bytes - done) / block_bytes;
  accumulators unused{};
  run_blocks<job::copy>(unused, nullptr, to + done, from + done, 0, blocks);
  done += blocks * block_bytes;
  for (; done + stripe_bytes <= size_bytes; done += stripe_bytes)
    stream_stripe(to + done, load_once(from + done));
  if (done != size_bytes)
    std::memcpy(to + done, from + done, size_bytes - done);
}

PEERCACHE_TARGET inline void hash_stripes(xxh3_accumulators& state, const std::byte* secret,
                                          const std::byte* from, std::size_t stripes) noexcept {
  auto sums = load_accumulators(state);
  for (std::size_t i = 0; i < stripes; ++i)
    accumulate(sums, load_stripe(from + i * stripe_bytes),
               load_stripe(secret + i * secret_step_bytes));
  store_accumulators(state, sums);
}

PEERCACHE_TARGET inline void hash_blocks(xxh3_accumulators& state, const std::byte* secret,
                                         const std::byte* from, std::size_t blocks) noexcept {
  auto sums = load_accumulators(state);
  run_blocks<job::hash>(sums, secret, nullptr, from, 0, blocks);
  store_accumulators(state, sums);
}

PEERCACHE_TARGET inline void copy_and_hash_blocks(xxh3_accumulators& state, const std::byte* secret,
                                                  std::byte* to, const std::byte* from,
                                                  std::size_t blocks) noexcept {
  auto sums = load_accumulators(state);
  auto shift = bytes_to_line(to);
  if (shift == 0) {
    run_blocks<job::copy_and_hash>(sums, secret, to, from, 0, blocks);
  } else {
    // The destination's lines start `shift` bytes after the stripes, so the last block has one line
    // less than stripes: it is only hashed, and memcpy copies its bytes.
    auto streamed_bytes = (blocks - 1) * block_bytes;
    std::memcpy(to, from, shift);
    run_blocks<job::copy_shifted_and_hash>(sums, secret, to + shift, from, shift, blocks - 1);
    run_blocks<job::hash>(sums, secret, nullptr, from + streamed_bytes, 0, 1);
    std::memcpy(to + shift + streamed_bytes, from + shift + streamed_bytes, block_bytes - shift);
  }
  store_accumulators(state, sums);
}

} // namespace PEERCACHE_KERNEL_NAMESPACE
} // namespace peercache::detail
