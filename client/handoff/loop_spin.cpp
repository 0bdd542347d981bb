#include "client/handoff/loop_spin.hpp"

#include <sched.h>

namespace peercache::client {

unsigned own_processors() noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? static_cast<unsigned>(CPU_COUNT(&set)) : 1;
}

} // namespace peercache::client
