// Tests of `peercache demo` with pools far too small for its pages and disks that hold half of the
// pages. The demo kills all nodes before it plays its trace a second time.

#include "local_ring.hpp"

#include <filesystem>
#include <fstream>

namespace peercache::real {
namespace {

/// Returns the command line of a demo whose 500 requests ask for about 7,700 pages of 16 KiB. Its
/// three pools together hold a twentieth of the pages, its three disks half.
std::vector<std::string> demo_of(const std::string& store) {
  return {"demo",  "--requests",   "500", "--pool-size", "2MiB", "--disk-size",
          "20MiB", "--disk-store", store, "--restart",   "-o",   "json"};
}

class disk_demo : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(with, disk_demo, testing::Values("bucket", "file_per_key", "offset"),
                         [](const auto& info) { return info.param; });

TEST_P(disk_demo, finds_what_the_disks_hold_after_all_nodes_were_killed) {
  const auto demo = run_cli(demo_of(GetParam()));
  EXPECT_EQ(demo.exit_code, 0);
  const auto report = demo.json();
  ASSERT_TRUE(report.contains("restarted")) << demo.output;
  EXPECT_EQ(report["wrong_bytes"], 0);
  EXPECT_GT(report["bytes_by_source"]["disk"].get<std::uint64_t>(), 0u);
  EXPECT_GT(report["disk"]["pages"].get<std::uint64_t>(), 0u);
  const auto& restarted = report["restarted"];
  EXPECT_EQ(restarted["wrong_bytes"], 0);
  const auto before = restarted["pages_found_before"].get<double>();
  EXPECT_GT(before, 1000) << "what three pools hold is a fraction of it";
  EXPECT_GE(restarted["pages_found_again"].get<double>(), 0.95 * before);
  EXPECT_GT(restarted["hits"].get<std::uint64_t>(), 0u);
}

/// The disks are emptied while their nodes are down, so the demo finds no page again and must fail.
TEST(disk_demo_fails, when_the_second_life_does_not_find_the_pages) {
  auto folder = cli::run_folder::make("peercache-demo");
  ASSERT_TRUE(folder) << folder.error().message;
  const auto disks = (folder->path() / "disks").string();
  const auto program = (folder->path() / "forgetful-node").string();
  // The demo starts this script as its node program, with --node-name NAME and more.
  std::ofstream(program) << "#!/bin/sh\n"
                         << "rm -rf '" << disks << "'/\"$2\"\n"
                         << "exec '" << PEERCACHE_CLI_DIR "/peercache-node"
                         << "' \"$@\"\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  // A demo that fails leaves its nodes' logs behind: TMPDIR makes it leave them in the folder of
  // this test.
  std::vector<std::string> words{"/usr/bin/env", "TMPDIR=" + folder->path().string(),
                                 PEERCACHE_CLI_DIR "/peercache"};
  for (const auto& word : demo_of("bucket"))
    words.push_back(word);
  words.insert(words.end(), {"--node-program", program, "--disk-path", disks});
  const auto demo = run_program(words);
  EXPECT_EQ(demo.exit_code, 1);
  const auto report = demo.json();
  ASSERT_TRUE(report.contains("restarted")) << demo.output;
  EXPECT_GT(report["disk"]["pages"].get<std::uint64_t>(), 0u);
  EXPECT_EQ(report["restarted"]["pages_found_again"], 0);
}

} // namespace
} // namespace peercache::real
