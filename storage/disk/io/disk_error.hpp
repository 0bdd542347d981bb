#pragma once

#include "common/error.hpp"

#include <string_view>

namespace peercache::storage {

/// An error with the text "cannot <doing> '<name>': <reason>", and the code that fits an errno of a
/// file system.
error disk_error(int error_number, std::string_view doing, std::string_view name);

} // namespace peercache::storage
