#pragma once

#include "rdma/device_memory.hpp"

#include <memory>

namespace peercache::rdma {

/// Finds the memory of NVIDIA GPUs, through the driver's library, which is looked for at run time.
/// Nothing of CUDA is linked or included; names and numbers are those of its driver API
/// (docs.nvidia.com, CUDA Driver API, "Unified Addressing" and "Memory Management"). Copies go over
/// a stream of their own, so that copies and the engine's kernels do not wait for each other.
/// @param library name of the driver's library
/// @return null on a machine without the library or without a GPU
std::shared_ptr<device_memory> find_cuda_memory(const char* library = "libcuda.so.1");

} // namespace peercache::rdma
