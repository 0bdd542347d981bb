#pragma once

#include "common/result.hpp"

#include <string>
#include <string_view>

namespace peercache::storage {

// A node's knowledge of cleared spaces lies beside the pages of its disk tier: pages from before a
// clear are on the disk until it has forgotten them, and after a power failure they may be there
// again. The file "disk.cleared" (bump the number in its first 8 bytes with any change):
//
//   offset  bytes  field
//        0      8  magic     "PCCLEAR1"
//        8      8  checksum  XXH3-64 of what follows
//       16         what the node gave

/// Durable when this returns: the file is replaced as a whole. Threads: one at a time.
result<void> write_cleared(const std::string& folder, std::string_view bytes);

/// Empty when nothing was written yet. Errors: of the file system, and `incompatible` of a file
/// that is damaged: nobody knows then which pages of this folder were cleared.
result<std::string> read_cleared(const std::string& folder);

} // namespace peercache::storage
