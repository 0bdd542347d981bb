#pragma once

#include "common/result.hpp"

#include <string_view>

namespace peercache::storage {

/// Checks that the name of a file or folder stays below the tier's folder: its parts between '/'
/// are neither empty, "." nor "..", and it has no zero byte. Errors: `invalid_argument`.
result<void> check_disk_name(std::string_view name);

/// Checks a folder's name as check_disk_name does; "" is the tier's folder itself.
result<void> check_disk_folder(std::string_view folder);

/// The folder part of a name: "a/b" of "a/b/c", "" of "c".
std::string_view folder_of(std::string_view name) noexcept;
/// The last part of a name: "c" of "a/b/c".
std::string_view last_part_of(std::string_view name) noexcept;

} // namespace peercache::storage
