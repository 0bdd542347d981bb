#pragma once

#include "common/result.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <sys/stat.h>

namespace peercache::storage {

/// The system calls behind `pool_memory` and `directory::shard_object`: named shared memory objects
/// and the locks on them. A name with one slash, at its start, is a POSIX shared memory object's;
/// any other name is a path (in a hugetlbfs folder). Threads: any. Errors: the text of errno with
/// the name, and what to do where that is known.
namespace shared_object {

/// The folder in which glibc keeps POSIX shared memory objects.
inline constexpr const char* posix_directory = "/dev/shm";

/// An error with the text of errno, of a call on the object `name`.
error failed(const std::string& what, const std::string& name);

int open(const std::string& name, int flags);
void unlink(const std::string& name);

/// Creates a new object with mode 0600 and locks the owner's byte. Returns its file descriptor.
result<int> create_locked(const std::string& name);

/// Opens the object to its owner and, if one is named, a group: mode 0600 or 0660. Errors: the
/// owner is not a member of the group.
result<void> share_with(int file, const std::string& name, std::optional<gid_t> group);
/// Whether the object is open only to its owner and, if one is named, this group.
bool is_shared_with(const struct stat& found, std::optional<gid_t> group) noexcept;

/// Whether a client may map an object: its user's own, shared with nobody or with one group, or any
/// user's that is shared with exactly `group`.
bool may_be_mapped(const struct stat& found, std::optional<gid_t> group) noexcept;

/// Locks a byte for this open file description: the lock ends with that description, hence with the
/// only process that has it open. False: another open file description has locked the byte.
bool try_lock(int file, std::uint64_t byte);
/// Whether another open file description locks any of the `bytes` > 0 from `byte` on.
bool is_locked_by_another(int file, std::uint64_t byte, std::uint64_t bytes = 1);

/// Takes the owner's lock of an object if nobody holds it and the object still has this name. The
/// lock ends with the descriptor. False: the object is not abandoned.
bool lock_if_abandoned(int file, const std::string& name);

/// Renames an object in one step. False: errno says why. @pre both names are POSIX shared memory
/// names, or both are paths
bool rename(const std::string& from, const std::string& to);

/// Gives the memory of a range back; it reads as zeros afterwards, for every process that maps it.
/// @pre `from` and `to` are multiples of the memory's page size
void punch_hole(int file, std::uint64_t from, std::uint64_t to);

} // namespace shared_object
} // namespace peercache::storage
