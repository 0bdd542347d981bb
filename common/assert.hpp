#pragma once

namespace peercache::detail {

/// Prints the failed condition to stderr and aborts.
[[noreturn]] void assertion_failed(const char* condition, const char* file, int line) noexcept;

} // namespace peercache::detail

/// Aborts when `condition` is false. For faults of ours only, never of the world; stays on in
/// release builds.
#define PEERCACHE_ASSERT(condition)                                                                \
  (static_cast<bool>(condition)                                                                    \
       ? void()                                                                                    \
       : ::peercache::detail::assertion_failed(#condition, __FILE__, __LINE__))

/// An assertion for loops that run once per page: on in debug and sanitizer builds only.
#ifdef NDEBUG
#define PEERCACHE_HOT_ASSERT(condition) void()
#else
#define PEERCACHE_HOT_ASSERT(condition) PEERCACHE_ASSERT(condition)
#endif
