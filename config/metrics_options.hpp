#pragma once

#include "config/options.hpp"

#include <vector>

// A function that appends the rows of the section `metrics` to the option table. Used only by
// config/options.cpp.
namespace peercache::config {

void add_metrics(std::vector<option>& table);

} // namespace peercache::config
