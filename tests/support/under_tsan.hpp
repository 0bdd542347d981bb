#pragma once

namespace peercache {

/// Whether the thread sanitizer has compiled the tests. It delays signals to the next call of the
/// system, so that nothing can be done at a given instruction, and notes each access in memory of
/// its own, which costs page faults.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool under_tsan = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
inline constexpr bool under_tsan = true;
#else
inline constexpr bool under_tsan = false;
#endif
#else
inline constexpr bool under_tsan = false;
#endif

} // namespace peercache
