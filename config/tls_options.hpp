#pragma once

#include "config/options.hpp"

#include <vector>

// A function that appends the rows of the section `tls` to the option table. Used only by
// config/options.cpp.
namespace peercache::config {

void add_tls(std::vector<option>& table);

} // namespace peercache::config
