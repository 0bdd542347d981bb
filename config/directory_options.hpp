#pragma once

#include "config/options.hpp"

#include <vector>

namespace peercache::config {

/// The rows of the section `directory` of the option table.
void add_directory(std::vector<option>& table);

} // namespace peercache::config
