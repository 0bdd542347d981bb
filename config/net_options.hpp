#pragma once

#include "config/options.hpp"

#include <vector>

// A function that appends the rows of the section `net` to the option table. Used only by
// config/options.cpp.
namespace peercache::config {

void add_net(std::vector<option>& table);

} // namespace peercache::config
