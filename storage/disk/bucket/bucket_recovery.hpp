#pragma once

#include "storage/disk/bucket/bucket_scan.hpp"
#include "storage/disk/disk_store.hpp"
#include "storage/disk/io/disk_io.hpp"

#include <vector>

namespace peercache::storage {

/// Scans all buckets of the folder with `options.threads` threads; makes the folder if there is
/// none.
/// @return The buckets in the order of their ids. Errors: the folder cannot be made or listed.
result<std::vector<bucket_scan>> scan_buckets(disk_io& io, const record_owner& owner,
                                              const recovery_options& options);

/// Writes the missing footer of an unsealed bucket and makes it durable, so that the next start
/// need not walk the bucket. Blocks. False: the bucket stays unsealed.
/// @pre no request of `io` is on its way
bool seal_found_bucket(disk_io& io, const bucket_scan& found, const record_owner& owner);

} // namespace peercache::storage
