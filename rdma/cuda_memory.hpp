#pragma once

#include "rdma/device_memory.hpp"

#include <memory>

namespace peercache::rdma {

/// The memory of NVIDIA GPUs, through the driver's library, which is looked for at run time: a
/// machine without it, or without a GPU, has none. Nothing of CUDA is linked or included; names and
/// numbers are those of its driver API (docs.nvidia.com, CUDA Driver API, "Unified Addressing" and
/// "Memory Management"). Copies go over a stream of their own, so that they wait for none of the
/// engine's kernels, nor these for them.
/// @param library name of the driver's library
/// @return null where there is none
std::shared_ptr<device_memory> find_cuda_memory(const char* library = "libcuda.so.1");

} // namespace peercache::rdma
