#pragma once

#include "common/forks.hpp"
#include "common/result.hpp"
#include "directory/shard_layout.hpp"
#include "directory/shard_search.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <sys/types.h>

namespace peercache::directory {

/// The shared memory object in which a node's shard lies, so that processes of its host look keys
/// up without a message. Only the node writes there. Threads: none. Ownership: holds a lock on the
/// object for its life, and unlinks its name at the end; who has mapped it reads on.
class shard_object {
public:
  /// The name of the shard's object of the node that has the pool `pool_name`.
  static std::string name_of(const std::string& pool_name);
  /// @param units that the shard's memory can have; they take memory as they are used
  /// @param group whose members may map the object, besides its user
  static result<shard_object> create(const std::string& pool_name, std::uint64_t units,
                                     std::optional<gid_t> group);
  /// Removes the objects of this prefix and of this user whose node is gone, and frees their
  /// memory: a process that still maps one finds no shard there. Returns their number.
  static std::size_t remove_leftovers(const std::string& name_prefix);

  shard_object(shard_object&& from) noexcept;
  shard_object& operator=(shard_object&& from) noexcept;
  ~shard_object();

  int file() const noexcept { return file_; }
  const std::string& name() const noexcept { return name_; }

private:
  shard_object(std::string name, int file) : name_(std::move(name)), file_(file) {}

  std::string name_;
  int file_ = -1;
  home_process home_;
};

/// The shard of this host's node, mapped read-only. Threads: any.
class attached_shard {
public:
  /// Maps the shard of the node that has this pool. Errors: there is none, or it may not be mapped,
  /// as for `storage::pool_memory::attach`.
  static result<std::unique_ptr<const attached_shard>> attach(const std::string& pool_name,
                                                              std::optional<gid_t> group);
  ~attached_shard();
  attached_shard(const attached_shard&) = delete;
  attached_shard& operator=(const attached_shard&) = delete;

  shard_search<attached_units> reader() const noexcept {
    return shard_search(attached_units(base_));
  }

private:
  attached_shard(const shard_unit* base, std::uint64_t bytes) : base_(base), bytes_(bytes) {}

  const shard_unit* base_;
  std::uint64_t bytes_;
  const home_process home_; ///< A forked child has no mapping to end.
};

} // namespace peercache::directory
