#pragma once

#include "client/handoff/worker_options.hpp"
#include "tests/client/handoff/worker_rig.hpp"
#include "tests/handoff/plan_world.hpp"

#include <cstdint>

namespace peercache::client::test {

/// The functions of the fake CUDA driver (tests/support/fake_cuda) that tests call, looked up in
/// the library as the product looks up the driver's functions.
struct fake_gpu {
  void* (*allocate)(std::size_t bytes);
  void (*release)(void* device);
  void* (*bytes)(void* device);
  void (*fail_copies)(int fail);
  std::uint64_t (*copies)();
};
const fake_gpu& gpu();

handoff::test::tensor_memory fake_gpu_memory(std::size_t bytes);

/// Returns options of a worker over TCP that uses the fake CUDA driver.
worker_options gpu_options();

} // namespace peercache::client::test
