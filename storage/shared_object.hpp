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

/// errno as a `result` of a call on `name`.
error failed(const std::string& what, const std::string& name);

int open(const std::string& name, int flags);
void unlink(const std::string& name);

/// Creates the object exclusively, mode 0600, and locks the owner's byte.
result<int> create_locked(const std::string& name);

/// Byte-range locks that belong to the open file description: they end with it, hence with its
/// process.
bool try_lock(int file, std::uint64_t byte);
bool is_locked_by_another(int file, std::uint64_t byte);

/// Unlinks the object if nobody holds its owner's lock.
bool unlink_if_abandoned(const std::string& name);

} // namespace shared_object
} // namespace peercache::storage
