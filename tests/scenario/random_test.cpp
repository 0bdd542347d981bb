#include "tests/scenario/runner.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace peercache::scenario {
namespace {

constexpr std::uint64_t parts = 20;
/// The test ends after this many failures, because it shrinks each failing script, which takes
/// long.
constexpr int failures_max = 3;

/// Returns, as text, the quantile `of` (0 to 1) of these times. @pre times is not empty
std::string share(std::vector<duration>& times, double of) {
  const auto at = times.begin() + static_cast<std::ptrdiff_t>(of * double(times.size() - 1));
  std::nth_element(times.begin(), at, times.end());
  return to_text(*at);
}

class random_clusters : public testing::TestWithParam<std::uint64_t> {};

/// No run may have a wrong byte, and each cluster must be whole again after its faults. When a seed
/// fails, the test shrinks its script and writes it to tests/seeds/.
TEST_P(random_clusters, never_give_wrong_bytes_and_heal) {
  std::uint64_t events = 0;
  std::uint64_t hits = 0;
  std::uint64_t refreshes = 0;
  std::uint64_t handed_over = 0;
  std::uint64_t sweep_pauses = 0;
  int failures = 0;
  std::vector<duration> healed;
  std::vector<duration> rest_found;
  auto count = (seeds_to_run() + parts - 1) / parts;
  for (auto seed = GetParam() * count + 1; seed <= (GetParam() + 1) * count; ++seed) {
    auto what = random_script(seed);
    auto came = run(what);
    if (!came.faults.empty()) {
      ADD_FAILURE() << describe(what, came) << "\nshrunk to " << keep(what);
      if (++failures == failures_max)
        return;
      continue;
    }
    events += came.events;
    hits += came.hits;
    refreshes += came.view_refreshes;
    handed_over += came.handed_over;
    sweep_pauses += came.sweep_pauses;
    healed.push_back(came.healed);
    if (came.fragments > 0)
      rest_found.push_back(came.rest_found);
  }
  std::printf("[ measured ] %llu clusters, %llu events, %llu hits, %llu views fetched from a "
              "shard, %llu records handed over, %llu pauses of sweeps\n",
              static_cast<unsigned long long>(count), static_cast<unsigned long long>(events),
              static_cast<unsigned long long>(hits), static_cast<unsigned long long>(refreshes),
              static_cast<unsigned long long>(handed_over),
              static_cast<unsigned long long>(sweep_pauses));
  std::printf("[ measured ] one view: half after %s, 99 of 100 after %s, all after %s\n",
              share(healed, 0.5).c_str(), share(healed, 0.99).c_str(), share(healed, 1).c_str());
  if (!rest_found.empty())
    std::printf("[ measured ] one view of the rest without a majority of masters, %zu times: half "
                "after %s, all after %s\n",
                rest_found.size(), share(rest_found, 0.5).c_str(), share(rest_found, 1).c_str());
  EXPECT_GT(hits, 5 * count);
  EXPECT_GT(events, 10'000 * count);
  // Fewer than fifty clusters may happen to have no refreshed view, no hand-over and no fragment.
  if (count >= 50) {
    EXPECT_GT(sweep_pauses, count);
    EXPECT_GT(refreshes, count / 2);
    EXPECT_GT(handed_over, count / 2);
    EXPECT_GT(rest_found.size(), count / 20);
  }
}

INSTANTIATE_TEST_SUITE_P(scenario, random_clusters, testing::Range<std::uint64_t>(0, parts));

TEST(scenario, the_seed_of_the_environment_goes_well) {
  const char* seed = std::getenv("PEERCACHE_SCENARIO_SEED");
  auto what = random_script(seed != nullptr ? std::strtoull(seed, nullptr, 10) : 1);
  auto came = run(what);
  EXPECT_TRUE(came.faults.empty()) << describe(what, came) << '\n' << to_text(what);
}

TEST(scenario, the_same_seed_is_the_same_trace) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    auto first = run(random_script(seed));
    auto second = run(random_script(seed));
    EXPECT_EQ(first.trace, second.trace) << seed;
    EXPECT_EQ(first.hits, second.hits) << seed;
  }
  EXPECT_NE(run(random_script(1)).trace, run(random_script(2)).trace);
}

} // namespace
} // namespace peercache::scenario
