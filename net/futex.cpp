#include "net/futex.hpp"

#include "common/assert.hpp"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace peercache::net {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                std::chrono::nanoseconds at_most) noexcept {
  PEERCACHE_ASSERT(at_most.count() >= 0); // The kernel would refuse to wait at all.
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(at_most);
  timespec timeout{};
  timeout.tv_sec = static_cast<time_t>(seconds.count());
  timeout.tv_nsec = static_cast<long>((at_most - seconds).count());
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, &timeout, nullptr, 0);
}

void futex_wake_all(const std::atomic<std::uint32_t>& word) noexcept {
  constexpr int everybody = 1 << 30;
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, everybody, nullptr, nullptr, 0);
}

bool spinning_helps() noexcept {
  static const bool several = [] {
    cpu_set_t set;
    CPU_ZERO(&set);
    return sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 1;
  }();
  return several;
}

void spin_pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile(
      "isb"); // Lasts about as long as the pause of x86; `yield` does nothing on most CPUs.
#endif
}

} // namespace peercache::net
