#pragma once

#include <cstdlib>

namespace peercache {

/// How many rounds a test makes, each with other random numbers: `usual`, or `all` where the
/// environment has PEERCACHE_TEST_THOROUGH (docs/testing.md).
inline int thorough(int all, int usual) {
  return std::getenv("PEERCACHE_TEST_THOROUGH") != nullptr ? all : usual;
}

} // namespace peercache
