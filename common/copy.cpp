#include "common/copy.hpp"

#include "common/assert.hpp"
#include "common/checksum.hpp"
#include "common/copy_kernels.hpp"

#include <array>
#if defined(__x86_64__)
#include <immintrin.h>
#else
#include <atomic>
#endif

namespace peercache {
namespace detail {
namespace {

struct kernel_list {
  std::array<const copy_kernels*, 3> kernels;
  std::size_t count = 0;
};

kernel_list find_usable_kernels() noexcept {
  kernel_list list;
#if defined(__aarch64__)
  list.kernels[list.count++] = &neon_kernels;
#else
  if (__builtin_cpu_supports("avx512f"))
    list.kernels[list.count++] = &avx512_kernels;
  if (__builtin_cpu_supports("avx2"))
    list.kernels[list.count++] = &avx2_kernels;
#endif
  list.kernels[list.count++] = &generic_kernels;
  return list;
}

} // namespace

std::span<const copy_kernels* const> usable_kernels() noexcept {
  static const kernel_list list = find_usable_kernels();
  return {list.kernels.data(), list.count};
}

const copy_kernels& best_kernels() noexcept {
  static const copy_kernels& best = *usable_kernels().front();
  return best;
}

} // namespace detail

void copy_page(std::span<std::byte> to, std::span<const std::byte> from) noexcept {
  copy_part(to, from, nullptr);
  copy_fence();
}

std::uint64_t copy_page_and_checksum(std::span<std::byte> to,
                                     std::span<const std::byte> from) noexcept {
  auto digest = detail::copy_and_checksum_with(detail::best_kernels(), to, from);
  copy_fence();
  return digest;
}

void copy_part(std::span<std::byte> to, std::span<const std::byte> from,
               checksum_stream* digest) noexcept {
  PEERCACHE_ASSERT(to.size() == from.size());
  if (digest != nullptr)
    digest->copy_and_update(to, from);
  else
    detail::best_kernels().copy(to.data(), from.data(), from.size());
}

void copy_fence() noexcept {
#if defined(__x86_64__)
  _mm_sfence();
#else
  // Non-temporal stores of arm64 are ordered by the same barriers as all others.
  std::atomic_thread_fence(std::memory_order_release);
#endif
}

const char* copy_instruction_set() noexcept {
  return detail::best_kernels().instruction_set;
}

} // namespace peercache
