#pragma once

#include "config/options.hpp"

#include <vector>

// For config/options.cpp alone: the rows of the `rdma` section.
namespace peercache::config {

void add_rdma_devices(std::vector<option>& table);
void add_rdma_path(std::vector<option>& table);
void add_rdma_memory(std::vector<option>& table);

} // namespace peercache::config
