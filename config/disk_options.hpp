#pragma once

#include "config/options.hpp"

#include <vector>

// Functions that append the rows of the section `disk` to the option table. Used only by
// config/options.cpp.
namespace peercache::config {

void add_disk_place(std::vector<option>& table);
void add_disk_store(std::vector<option>& table);
void add_disk_writes(std::vector<option>& table);
void add_disk_reads(std::vector<option>& table);

} // namespace peercache::config
