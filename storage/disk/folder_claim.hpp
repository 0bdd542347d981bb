#pragma once

#include "common/result.hpp"
#include "storage/disk/io/owned_fd.hpp"

#include <string>

namespace peercache::storage {

/// The node whose pages a tier's folder holds; the names are those of the configuration.
struct folder_owner {
  std::string cluster;
  std::string node;
  bool operator==(const folder_owner&) const = default;
};

/// A claim of a tier's folder, which belongs to one node of one cluster for good, and to one
/// process at a time.
///
/// The node and its cluster stand in the file "disk.owner", written durably by the first claim. The
/// process holds a lock on the file "disk.lock" as long as its claim lives, and loses it when it
/// dies, however it dies. Neither file is ever removed.
///
/// Threads: any, one at a time.
class folder_claim {
public:
  /// Claims the folder and makes it when it is not there. Errors, each with what to do: `refused`
  /// when a process holds the folder (this process, too) for a second, `incompatible` when the
  /// folder is another node's or of another format; otherwise those of the file system.
  static result<folder_claim> take(const std::string& folder, const folder_owner& owner);

  /// Looks whether `take` would succeed. Makes no folder and writes no file; a folder that is not
  /// there yet is free. Shares the lock for an instant, in which `take` waits.
  /// Errors: those of `take` for a folder that is in use, another node's or of another format.
  static result<void> look(const std::string& folder, const folder_owner& owner);

  /// Whether the folder belongs to this node of this cluster, whoever holds its lock now. False
  /// also when the folder's owner cannot be read.
  static bool is_owned_by(const std::string& folder, const folder_owner& owner);

  folder_claim(folder_claim&&) noexcept = default;
  folder_claim& operator=(folder_claim&&) noexcept = default;

private:
  explicit folder_claim(owned_fd lock) noexcept : lock_(std::move(lock)) {}

  owned_fd lock_;
};

} // namespace peercache::storage
