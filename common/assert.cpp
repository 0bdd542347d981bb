#include "common/assert.hpp"

#include <cstdio>
#include <cstdlib>

namespace peercache::detail {

void assertion_failed(const char* condition, const char* file, int line) noexcept {
  std::fprintf(stderr, "peercache: assertion failed: %s (%s:%d)\n", condition, file, line);
  std::abort();
}

} // namespace peercache::detail
