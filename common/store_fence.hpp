#pragma once

#if defined(__x86_64__)
#include <emmintrin.h>
#include <xmmintrin.h>
#endif

namespace peercache {

/// Orders the calling thread's stores before the call ahead of those behind it where the fences of
/// C++ do not: streaming stores on x86; and on arm64 for devices that READ the memory. There the
/// fences of C++ are barriers of the inner shareable domain, and devices may be in the outer one
/// only (Arm Architecture Reference Manual, "Shareability"; Linux's `dma_wmb` does the same).
inline void store_fence() noexcept {
#if defined(__x86_64__)
  _mm_sfence();
#elif defined(__aarch64__)
  asm volatile("dmb oshst" ::: "memory");
#endif
}

} // namespace peercache
