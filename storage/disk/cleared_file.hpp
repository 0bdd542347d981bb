#pragma once

#include "common/result.hpp"

#include <string>
#include <string_view>

namespace peercache::storage {

// The file "disk.cleared" lies beside the pages of a node's disk tier and holds which spaces the
// node knows to be cleared: pages from before a clear are on the disk until the node has forgotten
// them, and after a power failure they may be back. The file's format (bump the number in its first
// 8 bytes with any change):
//
//   offset  bytes  field
//        0      8  magic     "PCCLEAR1"
//        8      8  checksum  XXH3-64 of what follows
//       16         the bytes that the node gave

/// Replaces the file "disk.cleared" in `folder` by one with these bytes, durably when this returns.
/// Threads: one at a time.
result<void> write_cleared(const std::string& folder, std::string_view bytes);

/// The bytes that `write_cleared` has last written to `folder`; empty when it has written none.
/// Errors: those of the file system, and `incompatible` when the file "disk.cleared" is damaged:
/// then nobody knows which pages of this folder were cleared.
result<std::string> read_cleared(const std::string& folder);

} // namespace peercache::storage
