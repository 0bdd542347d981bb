#include "tests/scenario/runner.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace peercache::scenario {
namespace {

std::vector<std::string> files() {
  std::vector<std::string> found;
  for (const auto* folder : {"/tests/scenario", "/tests/seeds"})
    for (const auto& entry :
         std::filesystem::directory_iterator(std::string(PEERCACHE_SOURCE_DIR) + folder))
      if (entry.path().extension() == ".txt" &&
          (entry.path().parent_path().filename() == "scenario" ||
           entry.path().filename().string().starts_with("scenario-")))
        found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

script read(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  std::string fault;
  auto parsed = parse_script(text.str(), fault);
  EXPECT_TRUE(parsed) << path << ", " << fault;
  return parsed.value_or(script{});
}

class scenario_file : public testing::TestWithParam<std::string> {};

/// Each scenario runs under five seeds, which decide everything that the scenario does not say.
/// With sanitizers, which take ten times as long, it runs only under the seed that its file names.
TEST_P(scenario_file, goes_well) {
  auto what = read(GetParam());
#ifdef PEERCACHE_SANITIZED
  constexpr int seeds = 1;
#else
  constexpr int seeds = 5;
#endif
  for (int more = 0; more < seeds; ++more, what.seed += 1000) {
    auto came = run(what);
    EXPECT_TRUE(came.faults.empty()) << describe(what, came);
    EXPECT_GT(came.hits, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(scenario, scenario_file, testing::ValuesIn(files()), [](const auto& info) {
  auto name = std::filesystem::path(info.param).stem().string();
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
  return name;
});

TEST(scenario, a_rolling_restart_with_disks_keeps_nine_of_ten_hits) {
  auto restarts = read(std::string(PEERCACHE_SOURCE_DIR) + "/tests/scenario/rolling-restart.txt");
  auto undisturbed = restarts;
  undisturbed.steps.clear();
  auto rate = [](const script& what) {
    auto came = run(what);
    return static_cast<double>(came.hits) / static_cast<double>(came.hits + came.misses);
  };
  auto quiet = rate(undisturbed);
  auto rolling = rate(restarts);
  std::printf("[ measured ] hit rate %.3f, with a rolling restart %.3f\n", quiet, rolling);
  EXPECT_GE(rolling, 0.9 * quiet);
}

TEST(scenario, a_file_with_a_fault_names_its_line) {
  std::string fault;
  for (const auto* text : {"nodes\n", "nodes 0\n", "at 5 kill node1\n", "at 5s hug node1\n",
                           "at 5s kill\n", "run 5\n", "colour red\n"}) {
    EXPECT_FALSE(parse_script(std::string("seed 1\n") + text, fault)) << text;
    EXPECT_TRUE(fault.starts_with("line 2")) << fault;
  }
}

TEST(scenario, a_script_is_the_same_after_writing_and_reading_it) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    auto text = to_text(random_script(seed));
    std::string fault;
    auto back = parse_script(text, fault);
    ASSERT_TRUE(back) << fault;
    EXPECT_EQ(to_text(*back), text);
  }
}

} // namespace
} // namespace peercache::scenario
