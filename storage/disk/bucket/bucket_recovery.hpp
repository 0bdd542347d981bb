#pragma once

#include "storage/disk/bucket/bucket_scan.hpp"
#include "storage/disk/disk_store.hpp"
#include "storage/disk/io/disk_io.hpp"

#include <vector>

namespace peercache::storage {

/// Scans all buckets of the folder with `options.threads` threads, makes the folder if there is
/// none.
/// @return By id. Errors: the folder cannot be made or listed.
result<std::vector<bucket_scan>> scan_buckets(disk_io& io, const record_owner& owner,
                                              const recovery_options& options);

/// Gives an unsealed bucket the footer that it lacks, durable, so that the next start need not walk
/// it. Blocks. False: it stays as it is.
/// @pre nothing is on its way
bool seal_found_bucket(disk_io& io, const bucket_scan& found, const record_owner& owner);

} // namespace peercache::storage
