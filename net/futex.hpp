#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace peercache::net {

/// Sleeps while `word` is `expected`, for `at_most` at the longest; may return early. Threads: any.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                std::chrono::nanoseconds at_most) noexcept;

/// Wakes every thread that sleeps on `word`. Does not read the word, whose memory may be gone
/// already: at worst a thread that sleeps on something else at this address wakes early.
void futex_wake_all(const std::atomic<std::uint32_t>& word) noexcept;

/// Whether this process may run on more than one CPU. On a single CPU spinning only delays the
/// thread that is waited for.
bool spinning_helps() noexcept;

/// Tells the CPU that the calling thread is in a spin loop.
void spin_pause() noexcept;

} // namespace peercache::net
