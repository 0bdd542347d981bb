#pragma once

#include "common/result.hpp"

#include <cstdint>
#include <string>

namespace peercache::storage {

/// The system calls behind `pool_memory`: named shared memory objects and the locks on them. A name
/// with one slash, at its start, is a POSIX shared memory object; any other is a path (in a
/// hugetlbfs folder). Threads: any. Errors: errno with the name, and what to do where that is
/// known.
namespace shared_object {

/// Where glibc keeps POSIX shared memory objects.
inline constexpr const char* posix_directory = "/dev/shm";

/// errno as a `result` of a call on `name`.
error failed(const std::string& what, const std::string& name);

int open(const std::string& name, int flags);
void unlink(const std::string& name);

/// Creates the object exclusively, mode 0600, and locks the owner's byte.
result<int> create_locked(const std::string& name);

/// Byte-range locks that belong to the open file description: they end with it, hence with its
/// process.
bool try_lock(int file, std::uint64_t byte);
/// Whether another process locks any of the `bytes` > 0 from `byte` on.
bool is_locked_by_another(int file, std::uint64_t byte, std::uint64_t bytes = 1);

/// Takes the owner's lock of an object that nobody holds it of any more, and which still has this
/// name. It ends with the descriptor.
bool lock_if_abandoned(int file, const std::string& name);

/// Renames an object in one step. Both names are of one kind. Returns false where that cannot be;
/// see errno.
bool rename(const std::string& from, const std::string& to);

/// Gives the memory of a range back; it reads as zeros afterwards, for whoever maps it. Ends are
/// those of memory pages.
void punch_hole(int file, std::uint64_t from, std::uint64_t to);

} // namespace shared_object
} // namespace peercache::storage
