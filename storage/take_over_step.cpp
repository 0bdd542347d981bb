#include "storage/take_over_step.hpp"

#include "common/guards.hpp"

#include <csignal>

namespace peercache::storage {

void reached(take_over_step step) noexcept {
  if (fault_setting(fault::take_over_kill_point) == static_cast<std::uint32_t>(step))
    (void)std::raise(SIGKILL);
}

} // namespace peercache::storage
