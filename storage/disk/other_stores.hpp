#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace peercache::storage {

/// The files in the tier's folder that another store than `used` has written, in words such as
/// "files of the store `bucket`"; empty when there are none. Looks only. @param used a word of
/// disk.store
std::string files_of_other_stores(const std::filesystem::path& folder, std::string_view used);

} // namespace peercache::storage
