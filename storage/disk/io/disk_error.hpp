#pragma once

#include "common/error.hpp"

#include <string_view>

namespace peercache::storage {

/// "cannot <doing> '<name>': <reason>", and the kind that belongs to an errno of a file system.
error disk_error(int error_number, std::string_view doing, std::string_view name);

} // namespace peercache::storage
