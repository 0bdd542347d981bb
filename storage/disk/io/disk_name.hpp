#pragma once

#include "common/result.hpp"

#include <string_view>

namespace peercache::storage {

/// Whether a name of a file or folder stays below the tier's folder: parts between '/' that are
/// neither empty, "." nor ".."; no zero bytes. Errors: `invalid_argument`.
result<void> check_disk_name(std::string_view name);

/// Checks a folder's name as check_disk_name does; "" is the tier's folder itself.
result<void> check_disk_folder(std::string_view folder);

/// "a/b" of "a/b/c"; "" of "c".
std::string_view folder_of(std::string_view name) noexcept;
/// "c" of "a/b/c".
std::string_view last_part_of(std::string_view name) noexcept;

} // namespace peercache::storage
