#include "handoff_plan.hpp"
#include "handoff_router.hpp"

#include "common/log.hpp"

#include <cstdlib>
#include <fmt/format.h>

int main(int argc, char** argv) {
  using namespace peercache;
  const auto plan = handoff_stress::parse_plan(argc, argv);
  if (!plan) {
    fmt::print(stderr, "stress handoff: {}\n", plan.error().message);
    return 2;
  }
  // Child processes inherit this variable; a process reads it when it first asks for a guard.
  ::setenv("PEERCACHE_TEST_GUARDS_OFF", plan->guard_off ? plan->guard.c_str() : "", 1);
  init_log("stress", "off", false);
  handoff_stress::handoff_router router(*plan);
  router.run();
  fmt::print("{}\n", router.report().dump());
  return router.good() ? 0 : 1;
}
