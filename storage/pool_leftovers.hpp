#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace peercache::storage {

/// The digest of a name's prefix as a pool's header has it; never 0. From the name alone nobody can
/// tell where the prefix ends.
std::uint32_t digest_of_prefix(std::string_view prefix);

/// Removes the pools in `directory` of this prefix, which this user made and whose owner is gone;
/// returns how many. Their names as `shared_object` takes them are
/// `name_start` + "/" + file. Their memory comes back at once, also of those that are still mapped:
/// whoever reads there finds generation 0 in each slot, and so a miss, before a page's bytes go.
///
/// A process that still writes to a page that it was filling makes new memory there, until it
/// unmaps the pool: no more than what it had leased.
/// Threads: any. Errors: what cannot be removed stays.
std::size_t remove_abandoned_pools(const std::string& directory, const std::string& name_start,
                                   const std::string& prefix);

/// The size of a complete pool that this user made and whose owner is gone; `file`, which is open
/// under this name, holds the owner's lock of it from here on. Nothing for any other file.
std::optional<std::uint64_t> abandoned_pool_bytes(int file, const std::string& name);

} // namespace peercache::storage
