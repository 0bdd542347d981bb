#pragma once

#include <cstdint>
#include <span>
#include <sys/types.h>

namespace peercache::cli {

/// What processes have cost since they began, over all of their threads.
struct process_cost {
  double cpu_seconds = 0;     ///< User and kernel.
  std::uint64_t switches = 0; ///< Context switches, wanted and not.
};

/// Adds up what these processes' living threads have cost, as the kernel counts it (proc(5):
/// schedstat, status). A process that is gone counts nothing.
process_cost cost_of(std::span<const pid_t> processes);

} // namespace peercache::cli
