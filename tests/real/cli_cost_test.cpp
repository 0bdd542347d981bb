// Tests of what the command line costs: processor time, libraries, and the time until a command's
// answer.

#include "local_ring.hpp"

#include <algorithm>
#include <csignal>
#include <fcntl.h>
#include <httplib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace peercache::real::cli_cost_test {

namespace {

using std::chrono::microseconds;

constexpr const char* command_line = PEERCACHE_CLI_DIR "/peercache";

/// Returns the user and system time that `peercache --help` takes; 0 when it fails.
microseconds cost_of_help() {
  const auto child = ::fork();
  if (child == 0) {
    ::dup2(::open("/dev/null", O_WRONLY | O_CLOEXEC), STDOUT_FILENO);
    ::execl(command_line, command_line, "--help", nullptr);
    ::_exit(127);
  }
  int status = -1;
  rusage used{};
  if (::wait4(child, &status, 0, &used) != child || status != 0)
    return {};
  const auto of = [](const timeval& time) {
    return std::chrono::seconds(time.tv_sec) + microseconds(time.tv_usec);
  };
  return of(used.ru_utime) + of(used.ru_stime);
}

} // namespace

TEST(cli_cost, help_takes_less_than_20_ms_of_a_processor) {
  auto best = microseconds::max();
  for (int round = 0; round < 30; ++round) {
    const auto cost = cost_of_help();
    ASSERT_GT(cost, microseconds(0));
    best = std::min(best, cost);
  }
  EXPECT_LT(best, milliseconds(20));
}

TEST(cli_cost, libraries_that_only_a_node_needs_are_not_loaded) {
  const auto libraries =
      run_program({"/usr/bin/env", "LD_TRACE_LOADED_OBJECTS=1", command_line}).output;
  EXPECT_NE(libraries.find("libcaf_core"), std::string::npos) << libraries;
  for (const char* shed : {"librocksdb", "libprometheus", "libcpp-httplib", "libsnappy"})
    EXPECT_EQ(libraries.find(shed), std::string::npos) << shed << ": " << libraries;
}

/// `peercache bench disk` needs RocksDB, so it executes peercache-node, which links RocksDB, with
/// the same arguments.
TEST(cli_cost, the_command_that_needs_rocksdb_goes_on_in_the_node_program) {
  const auto refused = run_cli({"-o", "json", "bench", "disk", "--store", "nothing"});
  EXPECT_EQ(refused.exit_code, 2);
  const auto message = refused.json()["error"]["message"].get<std::string>();
  EXPECT_NE(message.find("there is no 'nothing'"), std::string::npos) << message;
}

class read_only_commands : public local_ring {
protected:
  finished_program ask(std::vector<std::string> words) {
    words.insert(words.end(), {"-o", "json", "--cluster", cluster(), "--node", address(0)});
    return run_cli(std::move(words));
  }
};

TEST_F(read_only_commands, answer_within_300_ms) {
  ASSERT_EQ(ask({"put", "greeting", "--value", "hello"}).exit_code, 0);
  ASSERT_TRUE(within(milliseconds(10'000), [&] { return ask({"status"}).exit_code == 0; }));
  const std::vector<std::vector<std::string>> commands{{"status"},
                                                       {"nodes"},
                                                       {"ring"},
                                                       {"shard", "ls"},
                                                       {"key", "locate", "greeting"},
                                                       {"key", "explain", "greeting"},
                                                       {"exists", "greeting"},
                                                       {"disk", "status"},
                                                       {"events"},
                                                       {"sessions"},
                                                       {"top", "--once"},
                                                       {"hotkeys"},
                                                       {"bigkeys"},
                                                       {"config", "show"}};
  for (const auto& words : commands) {
    auto best = clock::duration::max();
    finished_program answer;
    for (int round = 0; round < rounds_max; ++round) {
      const auto begin = clock::now();
      answer = ask(words);
      best = std::min(best, clock::now() - begin);
    }
    const auto name = testing::PrintToString(words);
    EXPECT_TRUE(answer.json().is_object()) << name << answer.output;
    EXPECT_FALSE(answer.json().contains("error")) << name << answer.output;
    EXPECT_LT(best, milliseconds(300)) << name;
    RecordProperty("ms_of_" + words.front(),
                   std::to_string(std::chrono::floor<milliseconds>(best).count()));
  }
}

namespace {

/// Starts a node with --dev; returns the time until it says that it is ready and /readyz is 200.
clock::duration time_to_serve() {
  const auto begin = clock::now();
  auto child = cli::child_process::spawn(
      {.arguments = {PEERCACHE_CLI_DIR "/peercache-node", "--dev", "--net-control-port", "0",
                     "--net-data-port", "0", "--net-http-port", "0"}});
  if (!child)
    return clock::duration::max();
  const auto line = child->read_line(milliseconds(20'000));
  const auto ports = cli::ready_line::parse(line ? *line : "");
  EXPECT_TRUE(ports);
  httplib::Client http{"127.0.0.1", ports ? ports->http_port : 0};
  const auto answer = http.Get("/readyz");
  EXPECT_TRUE(answer && answer->status == 200);
  const auto took = clock::now() - begin;
  child->signal(SIGINT);
  EXPECT_EQ(child->wait(milliseconds(20'000)), 0);
  return took;
}

} // namespace

TEST(node_program, dev_mode_serves_and_is_ready_in_less_than_two_seconds) {
  auto best = clock::duration::max();
  for (int round = 0; round < 5 && best >= milliseconds(2000); ++round)
    best = std::min(best, time_to_serve());
  EXPECT_LT(best, milliseconds(2000));
}

} // namespace peercache::real::cli_cost_test
