#pragma once

#include <chrono>
#include <string>

namespace peercache::stress {

/// The calling thread's times so far, as the kernel counts them.
struct thread_times {
  std::chrono::nanoseconds ran{};
  std::chrono::nanoseconds waited{}; ///< Time in which it could have run and got no processor.
  long page_faults = 0;

  static thread_times now();
};

/// "of which it ran ..., waited for a processor ..., and slept the rest; ... page faults".
std::string times_between(const thread_times& begin, const thread_times& end);

} // namespace peercache::stress
