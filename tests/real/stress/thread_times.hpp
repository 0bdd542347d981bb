#pragma once

#include <chrono>
#include <string>

namespace peercache::stress {

/// The calling thread's times so far, as the kernel counts them.
struct thread_times {
  std::chrono::nanoseconds ran{};
  std::chrono::nanoseconds waited{}; ///< Time in which the thread could have run and got no
                                     ///< processor.
  long page_faults = 0;

  static thread_times now();
};

/// Describes the times between `begin` and `end` for a report: "of which its thread ran ... ms and
/// waited ... ms for a processor; ... page faults".
std::string times_between(const thread_times& begin, const thread_times& end);

} // namespace peercache::stress
