#pragma once

#include "common/result.hpp"
#include "storage/disk/io/owned_fd.hpp"

#include <string>

namespace peercache::storage {

/// A tier's folder, opened, and whether its file system takes O_DIRECT.
struct opened_folder {
  owned_fd fd;
  bool direct = false;
};

/// Makes what is missing of the path, durable and for its owner only. Errors: as of the file
/// system.
result<owned_fd> make_folders(const std::string& folder);

/// Makes the folders as make_folders does, and tries the last one out with a file. Errors: it takes
/// no file. A full file system is no error: its pages can be read, and room be made.
result<opened_folder> open_folder(const std::string& folder);

} // namespace peercache::storage
