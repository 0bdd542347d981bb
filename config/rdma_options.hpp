#pragma once

#include "config/options.hpp"

#include <vector>

// Functions that append the rows of the section `rdma` to the option table. Used only by
// config/options.cpp.
namespace peercache::config {

void add_rdma_devices(std::vector<option>& table);
void add_rdma_path(std::vector<option>& table);
void add_rdma_memory(std::vector<option>& table);

} // namespace peercache::config
