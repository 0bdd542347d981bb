#pragma once

#include <cstdlib>

namespace peercache {

/// How often a test repeats what it does with other random numbers: `usual` times, and `all` times
/// where the environment has PEERCACHE_TEST_THOROUGH (docs/testing.md).
inline int thorough(int all, int usual) {
  return std::getenv("PEERCACHE_TEST_THOROUGH") != nullptr ? all : usual;
}

} // namespace peercache
