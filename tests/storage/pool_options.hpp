#pragma once

#include "storage/pool_memory.hpp"

#include <string>
#include <unistd.h>

namespace peercache::storage {

/// Options of a small pool for a test. The process id in its name keeps test runs apart that go on
/// at the same time.
inline pool_memory_options options_for(const std::string& test) {
  return {.name_prefix = "peercache-test-" + test + "-" + std::to_string(::getpid()),
          .node_name = "node 1/a",
          .owner = incarnation::random(),
          .size_bytes = 8u << 20};
}

} // namespace peercache::storage
