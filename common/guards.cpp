#include "common/guards.hpp"

namespace peercache {

bool guard_on(guard) noexcept {
  return true;
}

} // namespace peercache
