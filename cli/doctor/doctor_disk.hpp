#pragma once

#include "cli/doctor/doctor.hpp"
#include "config/node_config.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace peercache::cli {

/// The facts that the disk checks judge by. A value, so that tests can make facts up.
struct disk_facts {
  bool enabled = true;          ///< The value of `disk.enabled`.
  std::string path;             ///< The value of `disk.path`; empty: no disk tier is asked for.
  std::string folder;           ///< The node's own folder: <disk.path>/<node.name>.
  std::uint64_t size_bytes = 0; ///< The value of `disk.size`.
  std::string store;            ///< The value of `disk.store`.

  /// Why no file can be made in the folder (or in the nearest folder above it); empty: files can be
  /// made.
  std::string why_not_writable;
  /// Why the node would not get the folder (another process holds it, it is another node's); empty:
  /// it would.
  std::string why_not_ours;
  bool held_by_this_node = false; ///< Whether the folder is this node's, and in use.
  std::string other_files;        ///< The files of other stores in the folder, in words.
  std::string file_system;     ///< Type of the file system: "ext4", "overlay", …; empty: unknown.
  bool direct = false;         ///< Whether O_DIRECT works with blocks of 4 KiB.
  std::string why_no_uring;    ///< Why io_uring is not allowed; empty: it is.
  std::vector<double> sync_us; ///< Times of writing 4 KiB and fdatasync, in microseconds.
  std::string why_no_sync;     ///< Why a write or fdatasync failed; empty: none did.
  std::uint64_t used_bytes = 0; ///< Bytes that the files in the node's folder take now.
  bool more_is_used = false; ///< Whether `used_bytes` is only a part, as the count took too long.
  std::uint64_t free_bytes = 0;  ///< Bytes that are free for this user on the file system.
  std::uint64_t whole_bytes = 0; ///< Bytes of the file system, used or not.

  bool wanted() const noexcept { return enabled && !path.empty(); }
};

/// Finds out the disk facts of this machine, for a node with this configuration: writes some 4 KiB
/// blocks in a folder of its own, which it removes again, for about a second and a half where the
/// disk answers. A running node is not disturbed.
disk_facts gather_disk_facts(const config::node_config& config);
/// Finds out the facts as the function without a time does, but counts the node's files for
/// `counted_within`, not for half a second.
disk_facts gather_disk_facts(const config::node_config& config,
                             std::chrono::milliseconds counted_within);

/// The highest p99 of fdatasync, in microseconds, that gives no warning: with slower syncs written
/// pages queue up while they wait to become durable.
inline constexpr double sync_p99_us_most = 50'000;

/// Judges the facts: the checks, in the order in which an operator would mend what they find.
check_group judge_disk(const disk_facts& facts);

} // namespace peercache::cli
