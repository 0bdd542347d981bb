#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace peercache::storage {

/// The digest of pool.name_prefix as it stands in a pool's header; never 0. The header needs it
/// because the object's name does not show where the prefix ends.
std::uint32_t digest_of_prefix(std::string_view prefix);

/// Removes the pools in `directory` that have this prefix, belong to this user and have no living
/// owner; returns the number of removed pools. `shared_object` knows them as `name_start` + "/" +
/// file name. The memory of a removed pool comes back at once, even if some process still maps it:
/// a reader there finds generation 0 in each slot, and so a miss, before the bytes of a page go.
///
/// A process that still writes to a page that it was filling makes new memory in a removed pool
/// until it unmaps the pool, but no more than the slots that it had leased.
/// Threads: any. Errors: what cannot be removed stays.
std::size_t remove_abandoned_pools(const std::string& directory, const std::string& name_start,
                                   const std::string& prefix);

/// The size in bytes of a complete pool that belongs to this user and has no living owner. `file`,
/// which is open under `name`, holds the owner's lock from here on. Nothing for any other file.
std::optional<std::uint64_t> abandoned_pool_bytes(int file, const std::string& name);

} // namespace peercache::storage
