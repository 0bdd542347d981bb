#include "common/test_guards.hpp"
#include "tests/scenario/runner.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

namespace peercache::scenario {
namespace {

constexpr std::uint64_t seeds_tried = 200;

script script_of(std::uint64_t seed, bool repair) {
  auto what = random_script(seed);
  what.repair = repair;
  return what;
}

bool has(const outcome& came, const std::string& fault) {
  return std::any_of(came.faults.begin(), came.faults.end(), [&](const std::string& told) {
    return told.find(fault) != std::string::npos;
  });
}

/// Returns the first seed that fails with this fault; 0: none does.
std::uint64_t first_failing(const std::string& fault, bool repair = true,
                            std::uint64_t tried = seeds_tried) {
  for (std::uint64_t seed = 1; seed <= tried; ++seed)
    if (has(run(script_of(seed, repair)), fault))
      return seed;
  return 0;
}

std::uint64_t first_failing_without(guard off, const std::string& fault, bool repair = true) {
  guard_switched_off scope(off);
  return first_failing(fault, repair);
}

/// Returns the first seed that fails with this fault while the guard is off, and not while it is
/// on; 0 when there is none.
std::uint64_t first_kept_by(guard one, const std::string& fault, bool repair) {
  for (std::uint64_t seed = 1; seed <= seeds_tried; ++seed) {
    const auto what = script_of(seed, repair);
    guard_switched_off scope(one);
    if (!has(run(what), fault))
      continue;
    set_guard(one, true);
    if (!has(run(what), fault))
      return seed;
  }
  return 0;
}

void expect_needed(guard off, const std::string& fault, bool repair = true) {
  auto seed = first_kept_by(off, fault, repair);
  EXPECT_NE(seed, 0u) << "nothing went wrong in " << seeds_tried << " clusters without it";
  std::printf("[ measured ] without the guard seed %llu fails first\n",
              static_cast<unsigned long long>(seed));
}

TEST(scenario_guards, without_the_check_of_views_they_go_back) {
  expect_needed(guard::view, "came after");
}

TEST(scenario_guards, without_the_check_of_differences_two_views_have_one_stamp) {
  expect_needed(guard::difference, "two views are called ");
}

TEST(scenario_guards, without_the_majority_two_views_come_after_one) {
  expect_needed(guard::majority, "without a majority");
  expect_needed(guard::majority, "two views after");
}

TEST(scenario_guards, without_listening_for_masters_a_fragment_comes_beside_their_view) {
  expect_needed(guard::fragment, "though a majority answered");
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

/// Nodes do not compare their pages with the directory in these runs, because a comparison would
/// repair the lost record before the run ends.
TEST(scenario_guards, without_comparing_a_late_withdrawal_removes_what_is_there) {
  expect_needed(guard::withdraw, "does not know a page", /*repair=*/false);
}

TEST(scenario_guards, without_repair_the_directory_stays_wrong) {
  for (const auto* fault : {"remembers a page that", "does not know a page"}) {
    auto seed = first_failing(fault, /*repair=*/false);
    EXPECT_NE(seed, 0u) << "nothing was left to be repaired: " << fault;
    std::printf("[ measured ] without repair seed %llu is the first one of: %s\n",
                static_cast<unsigned long long>(seed), fault);
    EXPECT_TRUE(run(random_script(std::max<std::uint64_t>(seed, 1))).faults.empty());
  }
}

/// Comparisons repair records that were lost on the way. Without them every page in memory must
/// still be found, or the protocol itself would forget pages. No nodes are lost at the end where
/// fewer nodes would be left than a page has owners. There a lost owner gets no successor, so a
/// location that only this owner knew, because the other owner had its four locations already, is
/// lost. A quarter of the seeds is tried, because this test took as long as all others together.
TEST(scenario_guards, without_repair_every_page_in_memory_is_found_all_the_same) {
  for (std::uint64_t seed = 1; seed <= (seeds_to_run() + 3) / 4; ++seed) {
    auto what = script_of(seed, /*repair=*/false);
    if (what.nodes < what.lost.size() + what.replicas) {
      what.lost.clear();
      what.apart.clear();
    }
    ASSERT_FALSE(has(run(what), "nobody finds a page")) << seed;
  }
}

/// Where no message is lost or overtaken, as between two real actors, nothing must be left to
/// repair. The simulator with sanitizers tries a quarter of its few seeds.
TEST(scenario_guards, without_faults_every_withdrawal_arrives_without_repair) {
  for (std::uint64_t seed = 1; seed <= std::min<std::uint64_t>(60, (seeds_to_run() + 3) / 4);
       ++seed) {
    auto what = script_of(seed, /*repair=*/false);
    what.steps.clear();
    what.lost.clear();
    what.apart.clear();
    what.overtaking = false;
    what.waiting_max = script{}.waiting_max;
    EXPECT_FALSE(has(run(what), "remembers a page that")) << seed;
  }
}

TEST(scenario_guards, a_failing_seed_is_shrunk_to_what_matters) {
  auto seed = first_failing_without(guard::purge, "of a process that is gone");
  ASSERT_NE(seed, 0u);
  guard_switched_off scope(guard::purge);
  auto whole = random_script(seed);
  auto small = shrunk(whole);
  EXPECT_FALSE(run(small).faults.empty());
  EXPECT_LT(small.steps.size(), whole.steps.size());
}

} // namespace
} // namespace peercache::scenario
