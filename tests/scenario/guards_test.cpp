#include "common/test_guards.hpp"
#include "tests/scenario/runner.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

namespace peercache::scenario {
namespace {

constexpr std::uint64_t seeds_tried = 200;

/// The first seed that fails without the guard, with such a fault; 0: none did.
std::uint64_t first_failing(guard off, const std::string& fault) {
  guard_switched_off scope(off);
  for (std::uint64_t seed = 1; seed <= seeds_tried; ++seed) {
    auto came = run(random_script(seed));
    for (const auto& told : came.faults)
      if (told.find(fault) != std::string::npos)
        return seed;
  }
  return 0;
}

void expect_needed(guard off, const std::string& fault) {
  auto seed = first_failing(off, fault);
  EXPECT_NE(seed, 0u) << "nothing went wrong in " << seeds_tried << " clusters without it";
  std::printf("[ measured ] without the guard seed %llu fails first\n",
              static_cast<unsigned long long>(seed));
  EXPECT_TRUE(run(random_script(std::max<std::uint64_t>(seed, 1))).faults.empty());
}

TEST(scenario_guards, without_the_check_of_views_they_go_back) {
  expect_needed(guard::view, "came after");
}

TEST(scenario_guards, without_the_generation_bytes_are_wrong) {
  expect_needed(guard::generation, "wrong bytes");
}

TEST(scenario_guards, without_the_incarnation_an_old_record_is_used) {
  expect_needed(guard::incarnation, "wrong bytes");
}

TEST(scenario_guards, without_the_pin_a_slot_is_reused_while_it_is_sent) {
  expect_needed(guard::pin, "wrong bytes");
}

TEST(scenario_guards, without_the_purge_pages_of_the_dead_are_remembered) {
  expect_needed(guard::purge, "of a process that is gone");
}

TEST(scenario_guards, without_comparing_a_late_withdrawal_removes_what_is_there) {
  expect_needed(guard::withdraw, "does not know a page");
}

TEST(scenario_guards, a_failing_seed_is_shrunk_to_what_matters) {
  auto seed = first_failing(guard::purge, "of a process that is gone");
  ASSERT_NE(seed, 0u);
  guard_switched_off scope(guard::purge);
  auto whole = random_script(seed);
  auto small = shrunk(whole);
  EXPECT_FALSE(run(small).faults.empty());
  EXPECT_LT(small.steps.size(), whole.steps.size());
}

} // namespace
} // namespace peercache::scenario
