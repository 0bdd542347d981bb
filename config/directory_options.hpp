#pragma once

#include "config/options.hpp"

#include <vector>

namespace peercache::config {

/// Appends the rows of the sections `directory` and `overlap` to the option table.
void add_directory(std::vector<option>& table);

} // namespace peercache::config
