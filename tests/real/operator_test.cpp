// Tests of commands in an operator's hands: questions before actions that cannot be undone,
// signals, lost output.

#include "local_ring.hpp"

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

namespace peercache::real::operator_test {
namespace {

class operator_ring : public local_ring {
protected:
  finished_program ask(std::vector<std::string> words, const std::string& nodes) {
    words.insert(words.end(), {"-o", "json", "--cluster", cluster(), "--node", nodes});
    return run_cli(std::move(words));
  }
};

} // namespace

TEST_F(operator_ring, the_drain_of_the_last_node_that_takes_pages_asks) {
  const auto told = ask({"drain", "node-1", "--dry-run"}, address(0));
  EXPECT_EQ(told.exit_code, 0) << told.output;
  EXPECT_NE(told.json()["would"].get<std::string>().find("node-1"), std::string::npos);
  EXPECT_EQ(ask({"drain", "node-1"}, address(0)).exit_code, 0);
  EXPECT_EQ(ask({"drain", "node-2"}, address(0)).exit_code, 0);
  EXPECT_TRUE(within(milliseconds(10'000), [&] {
    return ask({"drain", "node-3"}, address(0)).exit_code == 2;
  })) << "there is nobody to ask";
  const auto put = ask({"put", "k", "--value", "x"}, address(2));
  EXPECT_EQ(put.exit_code, 0) << "it was not drained: " << put.output;
  EXPECT_EQ(ask({"drain", "node-3", "--yes"}, address(0)).exit_code, 0);
}

TEST_F(operator_ring, of_several_nodes_the_first_that_answers_is_asked) {
  const auto ping = ask({"ping", "-c", "1"}, "127.0.0.1:1," + address(1) + "," + address(2));
  EXPECT_EQ(ping.exit_code, 0) << ping.output;
  EXPECT_EQ(ping.json()["node"], "node-2");
  EXPECT_EQ(ping.json()["address"], address(1));
  const auto nobody = ask({"ping", "-c", "1", "--timeout", "500ms"}, "127.0.0.1:1,127.0.0.1:2");
  EXPECT_EQ(nobody.exit_code, 4);
  for (const char* each : {"127.0.0.1:1", "127.0.0.1:2"})
    EXPECT_NE(nobody.output.find(each), std::string::npos) << nobody.output;
}

TEST(operator_output, that_cannot_be_written_is_a_failure) {
  const std::string program = PEERCACHE_CLI_DIR "/peercache";
  for (const char* words : {" version", " --help", " cheat", " config init"}) {
    EXPECT_EQ(run_program({"/bin/sh", "-c", program + words + " >/dev/full"}).exit_code, 1)
        << words;
    EXPECT_EQ(run_program({"/bin/sh", "-c", program + words + " >/dev/null"}).exit_code, 0)
        << words;
  }
}

TEST(operator_demo, leaves_nothing_behind_when_it_is_told_to_end) {
  auto folder = cli::run_folder::make("peercache-real");
  ASSERT_TRUE(folder);
  auto demo = cli::child_process::spawn(
      {.arguments = {PEERCACHE_CLI_DIR "/peercache", "demo", "--nodes", "2", "--pool-size", "8MiB",
                     "--requests", "20", "--keep"},
       .environment = {{"TMPDIR", folder->path().string()}},
       .stderr_path = "/dev/null"});
  ASSERT_TRUE(demo);
  ASSERT_TRUE(demo->read_line(milliseconds(60'000))) << "the report";
  EXPECT_FALSE(std::filesystem::is_empty(folder->path()));
  EXPECT_FALSE(demo->wait(milliseconds(0))) << "--keep leaves it running";
  demo->signal(SIGTERM);
  EXPECT_EQ(demo->wait(milliseconds(30'000)), 128 + SIGTERM);
  EXPECT_TRUE(std::filesystem::is_empty(folder->path()));
}

namespace {

/// Returns the paths of the pools in shared memory that child processes of `parent` have mapped.
std::set<std::string> pools_of_children(pid_t parent) {
  std::set<std::string> pools;
  const auto process = "/proc/" + std::to_string(parent);
  std::ifstream children(process + "/task/" + std::to_string(parent) + "/children");
  for (pid_t child = 0; children >> child;) {
    std::ifstream maps("/proc/" + std::to_string(child) + "/maps");
    for (std::string line; std::getline(maps, line);)
      if (const auto at = line.find("/dev/shm/"); at != std::string::npos)
        pools.insert(line.substr(at));
  }
  return pools;
}

class operator_demo_signal : public testing::TestWithParam<int> {};

} // namespace

TEST_P(operator_demo_signal, ends_a_replay_and_leaves_no_folder_and_no_pool) {
  auto folder = cli::run_folder::make("peercache-real");
  ASSERT_TRUE(folder);
  auto demo =
      cli::child_process::spawn({.arguments = {PEERCACHE_CLI_DIR "/peercache", "demo", "--nodes",
                                               "2", "--pool-size", "8MiB", "--requests", "20000"},
                                 .environment = {{"TMPDIR", folder->path().string()}},
                                 .stderr_path = "/dev/null"});
  ASSERT_TRUE(demo);
  std::set<std::string> pools;
  ASSERT_TRUE(within(milliseconds(30'000), [&] {
    pools = pools_of_children(demo->pid());
    return pools.size() == 2;
  }));
  EXPECT_FALSE(std::filesystem::is_empty(folder->path()));
  demo->signal(GetParam());
  EXPECT_EQ(demo->wait(milliseconds(30'000)), 128 + GetParam());
  EXPECT_TRUE(std::filesystem::is_empty(folder->path()));
  for (const auto& pool : pools)
    EXPECT_FALSE(std::filesystem::exists(pool)) << pool;
}

INSTANTIATE_TEST_SUITE_P(of, operator_demo_signal, testing::Values(SIGINT, SIGTERM, SIGHUP),
                         [](const auto& info) { return std::string(sigabbrev_np(info.param)); });

} // namespace peercache::real::operator_test
