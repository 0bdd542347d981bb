#include "thread_times.hpp"

#include <fmt/format.h>
#include <fstream>
#include <sys/resource.h>

namespace peercache::stress {

thread_times thread_times::now() {
  thread_times read;
  // The file's first two numbers are nanoseconds on a processor and nanoseconds of waiting for one
  // (Documentation/scheduler/sched-stats.rst of Linux).
  std::ifstream file("/proc/thread-self/schedstat");
  std::int64_t ran = 0;
  std::int64_t waited = 0;
  if (file >> ran >> waited) {
    read.ran = std::chrono::nanoseconds(ran);
    read.waited = std::chrono::nanoseconds(waited);
  }
  ::rusage usage{};
  if (::getrusage(RUSAGE_THREAD, &usage) == 0)
    read.page_faults = usage.ru_minflt + usage.ru_majflt;
  return read;
}

std::string times_between(const thread_times& begin, const thread_times& end) {
  using milliseconds = std::chrono::duration<double, std::milli>;
  return fmt::format(
      "of which its thread ran {:.1f} ms and waited {:.1f} ms for a processor; {} page faults",
      milliseconds(end.ran - begin.ran).count(), milliseconds(end.waited - begin.waited).count(),
      end.page_faults - begin.page_faults);
}

} // namespace peercache::stress
