#pragma once

#include "common/result.hpp"
#include "storage/disk/io/owned_fd.hpp"

#include <string>

namespace peercache::storage {

/// The open folder of a disk tier.
struct opened_folder {
  owned_fd fd;
  bool direct = false;
};

/// Makes the missing folders of the path, durable and for their owner only, and opens the last
/// folder. Errors: those of the file system.
result<owned_fd> make_folders(const std::string& folder);

/// Makes the folders as make_folders does, and tries the last folder out with a file. Errors: the
/// folder takes no file. A full file system is not an error: pages in it can be read, and room be
/// made.
result<opened_folder> open_folder(const std::string& folder);

} // namespace peercache::storage
