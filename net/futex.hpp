#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace peercache::net {

/// Sleeps while `word` is `expected`, at most `at_most`; may return early. Threads: any.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                std::chrono::nanoseconds at_most) noexcept;

/// Wakes everybody who sleeps on `word`. Does not read it: the word may be gone already, then at
/// worst somebody who sleeps on what took its place wakes early.
void futex_wake_all(const std::atomic<std::uint32_t>& word) noexcept;

/// Whether this process may run on more than one CPU; on a single one spinning only delays the
/// awaited.
bool spinning_helps() noexcept;

/// Tells the CPU that this is a spin loop.
void spin_pause() noexcept;

} // namespace peercache::net
