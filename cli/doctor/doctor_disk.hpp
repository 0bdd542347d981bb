#pragma once

#include "cli/doctor/doctor.hpp"
#include "config/node_config.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace peercache::cli {

/// All that the disk checks judge by. A value: tests make it up.
struct disk_facts {
  bool enabled = true;          ///< disk.enabled
  std::string path;             ///< disk.path; empty: no disk tier is asked for.
  std::string folder;           ///< The node's own: <disk.path>/<node.name>.
  std::uint64_t size_bytes = 0; ///< disk.size

  std::string why_not_writable; ///< Empty: a file could be made there, or where it would be made.
  std::string file_system;      ///< "ext4", "overlay", …; "" is unknown.
  bool direct = false;          ///< O_DIRECT works with blocks of 4 KiB.
  std::string why_no_uring;     ///< Empty: io_uring is allowed.
  std::vector<double> sync_us;  ///< Times of writing 4 KiB and fdatasync.
  std::string why_no_sync;      ///< Why a write or fdatasync failed; else empty.
  std::uint64_t used_bytes = 0; ///< Bytes that the node's folder takes already.
  std::uint64_t free_bytes = 0; ///< Bytes free for this user on that file system.

  bool wanted() const noexcept { return enabled && !path.empty(); }
};

/// Tries them out on this machine, for a node that is configured like this: writes some 4 KiB
/// blocks in a folder of its own, which it removes again, for two seconds at most. A running node
/// is not disturbed.
disk_facts gather_disk_facts(const config::node_config& config);

/// Syncs wait for each other as long as written pages wait for theirs: slower ones queue up.
inline constexpr double sync_p99_us_most = 50'000;

/// The checks, in the order in which an operator would mend what they find.
check_group judge_disk(const disk_facts& facts);

} // namespace peercache::cli
