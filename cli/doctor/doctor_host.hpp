#pragma once

#include "cli/doctor/doctor.hpp"
#include "config/node_config.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace peercache::cli {

/// The facts that the checks of memory and limits judge by. A value, so that tests can make facts
/// up.
struct host_facts {
  std::uint64_t pool_bytes = 0; ///< Bytes that the pool's object takes, its tables included.
  bool huge_pages = false;      ///< Whether the pool lies in huge pages, not in /dev/shm.
  /// Bytes that the pools of this node take now. The node frees them at its start, or takes them
  /// over, so they are not missing.
  std::uint64_t held_bytes = 0;

  std::uint64_t shm_bytes = 0;      ///< Size of /dev/shm; 0: it has no limit.
  std::uint64_t shm_free_bytes = 0; ///< Bytes that are free in /dev/shm.
  std::string why_no_shm;           ///< Why /dev/shm cannot be used; empty: it can.

  std::uint64_t memory_bytes = 0;           ///< Memory of the machine; 0: unknown.
  std::uint64_t memory_available_bytes = 0; ///< Memory that is available without swapping.

  std::optional<std::uint64_t> cgroup_bytes; ///< The lowest limit of this process's cgroups; empty:
                                             ///< no limit.
  std::string cgroup_file;                   ///< The file that has `cgroup_bytes`.

  std::uint64_t open_files_most = 0; ///< The hard limit of open files, which the node takes.
};

/// Fewer open files than this are too few for a node to serve at all.
inline constexpr std::uint64_t open_files_least = 256;
/// With fewer open files than this a node of a large cluster, or of many engines, turns connections
/// away.
inline constexpr std::uint64_t open_files_enough = 4096;

/// Finds out the facts of this machine, for a node with this configuration. @param root the folder
/// in which proc, sys and dev lie; tests have one of their own
host_facts gather_host_facts(const config::node_config& config,
                             const std::filesystem::path& root = "/");

/// Judges the facts: the checks, in the order in which an operator would mend what they find.
check_group judge_host(const host_facts& facts);

} // namespace peercache::cli
