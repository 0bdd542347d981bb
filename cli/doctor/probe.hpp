#pragma once

#include "cli/doctor/doctor.hpp"

#include <chrono>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace peercache::cli {

/// A part of the machine that `peercache doctor` looks at in one go.
struct probe {
  std::string group;   ///< The group of its checks.
  std::string subject; ///< The probed thing, such as "disk.path /mnt/a", for people.
  std::string fix;     ///< The advice to give when the probe does not end.
  std::function<std::vector<check>()> look;
};

/// The longest time for which a probe is waited for.
inline constexpr std::chrono::milliseconds probe_deadline{3000};

/// Runs all probes at the same time, each in a process of its own, for a call that a disk or a
/// mount never answers cannot be ended otherwise. A probe that has not ended by the deadline, or
/// whose process died, gives the check `no-answer`, which fails; its process is killed and not
/// waited for. Groups come in the order of their first probes, checks in the order of the probes.
/// @pre the calling process has one thread
std::vector<check_group> look_at_all(std::span<const probe> probes,
                                     std::chrono::milliseconds deadline = probe_deadline);

} // namespace peercache::cli
