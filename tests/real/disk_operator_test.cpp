// Tests of what an operator sees of a node's disk: what the command line says, and a disk that
// cannot be used.

#include "disk_node.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>

namespace peercache::real {

using metrics::metric;
namespace {

finished_program ask(const disk_node& node, std::vector<std::string> words) {
  words.insert(words.begin(), "disk");
  words.insert(words.end(),
               {"disk-node", "-o", "json", "--cluster", node.cluster(), "--node", node.address()});
  return run_cli(std::move(words));
}

class disk_command : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(with, disk_command, testing::Values("bucket", "file_per_key", "offset"),
                         [](const auto& info) { return info.param; });

TEST_P(disk_command, shows_verifies_and_evicts_what_a_node_has_on_disk) {
  constexpr std::uint32_t pages = 200;
  disk_node::options options;
  options.store = GetParam();
  disk_node node(options);
  ASSERT_NO_FATAL_FAILURE(node.put_to_disk(0, pages));

  const auto status = ask(node, {"status"});
  EXPECT_EQ(status.exit_code, 0);
  const auto before = status.json();
  EXPECT_EQ(before["node"], "disk-node");
  EXPECT_EQ(before["store"], GetParam());
  EXPECT_TRUE(before["on"].get<bool>());
  EXPECT_EQ(before["pages"], pages);

  const auto begun = ask(node, {"verify", "--wait", "1ms"});
  EXPECT_EQ(begun.exit_code, 3) << "nothing was wrong, but not all has been read";
  EXPECT_FALSE(begun.json()["complete"].get<bool>());
  const auto verified = ask(node, {"verify"});
  EXPECT_EQ(verified.exit_code, 0);
  EXPECT_TRUE(verified.json()["complete"].get<bool>());
  EXPECT_GE(verified.json()["read_bytes"].get<std::uint64_t>(), pages * disk_node::page_bytes);
  EXPECT_EQ(verified.json()["checksum_failures"], 0);

  // To evict half of the pages, what is free plus half of `page_bytes` is asked for. Half of
  // `bytes_used` would be wrong, because it counts more than pages.
  const auto wanted = before["bytes_capacity"].get<std::uint64_t>() -
                      before["bytes_used"].get<std::uint64_t>() +
                      before["page_bytes"].get<std::uint64_t>() / 2;
  const auto evicted = ask(node, {"evict", "--free", std::to_string(wanted), "--yes"});
  EXPECT_EQ(evicted.exit_code, 0);
  EXPECT_TRUE(evicted.json()["reached"].get<bool>());
  EXPECT_GE(evicted.json()["free_bytes"].get<std::uint64_t>(), wanted);
  const auto gone = evicted.json()["evicted_pages"].get<std::uint64_t>();
  EXPECT_GT(gone, 0u);
  EXPECT_EQ(ask(node, {"status"}).json()["pages"].get<std::uint64_t>(), pages - gone);
}

TEST_P(disk_command, verifies_nothing_that_could_not_be_read) {
  constexpr std::uint32_t pages = 100;
  disk_node::options options;
  options.store = GetParam();
  disk_node node(options);
  ASSERT_NO_FATAL_FAILURE(node.put_to_disk(0, pages));
  node.bury(milliseconds(0));
  ASSERT_TRUE(node.start({{"PEERCACHE_TEST_DISK_ERROR_PERCENT", "30"}}));
  ASSERT_TRUE(node.settled());
  node.put(1000); // Causes a write, because the injected faults begin with the first one.
  EXPECT_TRUE(within(milliseconds(60'000), [&] {
    const auto now = node.status();
    return now && now->count(metric::disk_writes_total) +
                          now->samples.count(metric::disk_errors_total, {"write"}) !=
                      0;
  }));

  const auto verified = ask(node, {"verify"});
  EXPECT_EQ(verified.exit_code, 1);
  EXPECT_GT(verified.json()["read_errors"].get<std::uint64_t>(), 0u);
  EXPECT_EQ(verified.json()["checksum_failures"], 0);
}

TEST_P(disk_command, evicts_all_that_there_is_and_nothing_that_comes_later) {
  constexpr std::uint32_t pages = 100;
  disk_node::options options;
  options.store = GetParam();
  disk_node node(options);
  ASSERT_NO_FATAL_FAILURE(node.put_to_disk(0, pages));
  EXPECT_EQ(ask(node, {"evict", "--yes"}).exit_code, 2) << "how much is not said";
  EXPECT_EQ(ask(node, {"evict", "--all"}).exit_code, 2) << "there is nobody to ask";
  const auto told = ask(node, {"evict", "--all", "--dry-run"});
  EXPECT_EQ(told.exit_code, 0) << told.output;
  EXPECT_EQ(told.json()["would"], "Every page on the disk of disk-node is dropped.");
  EXPECT_EQ(ask(node, {"status"}).json()["pages"], pages);
  const auto evicted = ask(node, {"evict", "--all", "--yes"});
  EXPECT_EQ(evicted.exit_code, 0) << evicted.output;
  const auto report = evicted.json();
  EXPECT_TRUE(report["reached"].get<bool>());
  EXPECT_EQ(report["evicted_pages"], pages);
  EXPECT_EQ(report.value("pages_left", 1), 0);
  ASSERT_NO_FATAL_FAILURE(node.put_to_disk(pages, pages));
  EXPECT_EQ(ask(node, {"status"}).json()["pages"], pages);
  const auto begun = ask(node, {"evict", "--all", "--yes", "--wait", "1ms"});
  EXPECT_EQ(begun.exit_code, 3) << begun.output;
  EXPECT_FALSE(begun.json()["reached"].get<bool>());
}

TEST(disk_off, a_path_that_cannot_be_used_costs_the_disk_and_nothing_else) {
  auto folder = cli::run_folder::make("peercache-no-disk");
  ASSERT_TRUE(folder);
  const auto path = (folder->path() / "file").string();
  std::ofstream(path) << "no folder";
  disk_node::options options;
  options.disk_path = path;
  disk_node node(options);
  for (std::uint32_t id = 0; id < 600; ++id) // Puts more pages than the pool holds.
    ASSERT_EQ(node.put(id), page_status::stored);
  ASSERT_TRUE(node.client().flush());
  EXPECT_EQ(node.count_hits(599, 1), 1u);
  const auto now = node.status();
  ASSERT_TRUE(now);
  EXPECT_TRUE(now->is(metric::ready)) << now->unready_reason;
  EXPECT_FALSE(now->is(metric::disk_on));
  EXPECT_NE(now->disk.why_off.find(path), std::string::npos) << now->disk.why_off;

  const auto status = ask(node, {"status"});
  EXPECT_EQ(status.exit_code, 1);
  EXPECT_FALSE(status.json()["on"].get<bool>());
  EXPECT_EQ(ask(node, {"verify"}).exit_code, 1);
  EXPECT_EQ(ask(node, {"evict", "--all", "--yes"}).exit_code, 1);

  const std::vector<std::string> where{"--cluster", node.cluster(), "--node", node.address()};
  std::vector<std::string> words{"nodes", "-o", "json"};
  words.insert(words.end(), where.begin(), where.end());
  const auto said = run_cli(words).json()["nodes"][0]["faults"];
  ASSERT_FALSE(said.empty());
  EXPECT_EQ(said[0]["id"], "disk-off") << said;
  EXPECT_NE(said[0]["text"].get<std::string>().find(path), std::string::npos) << said;
  EXPECT_GT(said[0]["since_unix_ms"].get<std::uint64_t>(), 0u);
  words = {"nodes"};
  words.insert(words.end(), where.begin(), where.end());
  const auto table = run_cli(words).output;
  EXPECT_NE(table.find("\ndisk-node  " + said[0]["text"].get<std::string>() + " [disk-off]\n"),
            std::string::npos)
      << table;

  int told = 0;
  std::istringstream log(node.log());
  for (std::string line; std::getline(log, line);)
    told += line.find("disk tier: off") != std::string::npos;
  EXPECT_EQ(told, 1) << node.log();
}

} // namespace
} // namespace peercache::real
