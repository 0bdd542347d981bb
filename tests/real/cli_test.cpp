#include "local_ring.hpp"

#include <csignal>
#include <cstdio>
#include <fstream>

namespace peercache::real {

namespace {

class cli_ring : public local_ring {
protected:
  finished_program ask(std::vector<std::string> words) {
    for (const auto* more : {"-o", "json", "--cluster"})
      words.emplace_back(more);
    words.push_back(cluster());
    words.insert(words.end(), {"--node", address(0)});
    return run_cli(std::move(words));
  }
};

} // namespace

TEST_F(cli_ring, ping_status_and_nodes_answer_with_raw_numbers) {
  auto ping = ask({"ping", "-c", "3"});
  EXPECT_EQ(ping.exit_code, 0);
  EXPECT_GT(ping.json()["round_trip_us_p50"].get<double>(), 0.0);
  auto status = ask({"status"});
  EXPECT_EQ(status.exit_code, 0);
  EXPECT_EQ(status.json()["node"]["name"], "node-1");
  EXPECT_GE(status.json()["pool_bytes_capacity"].get<std::uint64_t>(), 30u << 20);
  auto nodes = ask({"nodes"});
  EXPECT_EQ(nodes.exit_code, 0);
  ASSERT_EQ(nodes.json()["nodes"].size(), 3u);
  for (const auto& each : nodes.json()["nodes"])
    EXPECT_TRUE(each["ready"].get<bool>());
}

TEST_F(cli_ring, a_page_goes_in_is_found_comes_out_and_is_removed) {
  EXPECT_EQ(ask({"put", "greeting", "--value", "hello"}).json()["status"], "stored");
  EXPECT_EQ(ask({"put", "greeting", "--value", "hello"}).json()["status"], "duplicate");
  auto exists = ask({"exists", "greeting", "nothing"});
  EXPECT_EQ(exists.exit_code, 1);
  EXPECT_TRUE(exists.json()["keys"][0]["exists"].get<bool>());
  EXPECT_EQ(exists.json()["keys"][1]["status"], "not_found");
  auto get = ask({"get", "greeting"});
  EXPECT_EQ(get.exit_code, 0);
  EXPECT_EQ(get.json()["length_bytes"], 5);
  auto file = testing::TempDir() + "peercache-greeting";
  EXPECT_EQ(
      run_cli({"get", "greeting", file, "--cluster", cluster(), "--node", address(2)}).exit_code,
      0);
  std::string bytes;
  std::getline(std::ifstream(file), bytes);
  EXPECT_EQ(bytes, "hello");
  std::remove(file.c_str());
  auto located = ask({"key", "locate", "greeting"});
  EXPECT_EQ(located.json()["keys"][0]["locations"][0]["node"], "node-1");
  auto explained = ask({"key", "explain", "greeting"});
  EXPECT_EQ(explained.exit_code, 0);
  EXPECT_EQ(explained.json()["origin"], "own_host");
  EXPECT_EQ(ask({"rm", "greeting"}).exit_code, 0);
  EXPECT_EQ(ask({"exists", "greeting"}).exit_code, 1);
  auto missed = ask({"get", "greeting"});
  EXPECT_EQ(missed.exit_code, 1);
  EXPECT_EQ(missed.json()["status"], "not_found");
  EXPECT_EQ(ask({"key", "explain", "greeting"}).exit_code, 1);
}

TEST_F(cli_ring, a_cluster_with_a_silent_node_is_degraded) {
  node(2).process().signal(SIGSTOP);
  auto nodes = ask({"nodes", "--timeout", "300ms"});
  node(2).process().signal(SIGCONT);
  EXPECT_EQ(nodes.exit_code, 3);
}

TEST_F(cli_ring, another_clusters_name_is_refused) {
  auto refused = run_cli(
      {"status", "-o", "json", "--node", address(0), "--cluster", "another", "--timeout", "1s"});
  EXPECT_EQ(refused.exit_code, 4);
  EXPECT_TRUE(refused.json().contains("error"));
}

TEST(cli, nobody_at_the_address_is_unreachable) {
  auto alone = run_cli({"ping", "-o", "json", "--node", "127.0.0.1:1", "--timeout", "500ms"});
  EXPECT_EQ(alone.exit_code, 4);
  EXPECT_TRUE(alone.json().contains("error"));
}

TEST(cli, a_demo_of_a_small_trace_gives_no_wrong_bytes_and_leaves_nothing) {
  auto demo = run_cli({"demo", "--requests", "80", "--pool-size", "4MiB", "-o", "json"});
  EXPECT_EQ(demo.exit_code, 0);
  auto report = demo.json();
  EXPECT_EQ(report["wrong_bytes"], 0);
  EXPECT_EQ(report["requests"], 80);
  EXPECT_GT(report["hits"].get<int>(), 0);
  EXPECT_GT(report["evictions"].get<int>(), 0);
  EXPECT_EQ(report["hits"].get<int>() + report["misses_total"].get<int>(),
            report["pages"].get<int>());
}

TEST(cli, bench_gives_results_in_the_agreed_form) {
  auto bench = run_cli({"bench", "--only", "exists", "--rounds", "1", "--calls", "20", "--memory",
                        "128MiB", "--pool-size", "512MiB", "-o", "json"});
  EXPECT_EQ(bench.exit_code, 0);
  auto results = bench.json()["results"];
  ASSERT_EQ(results.size(), 2u);
  for (const auto& row : results)
    for (const char* name : {"name", "page_bytes", "batch", "verify", "bytes_per_second",
                             "limit_bytes_per_second", "ratio", "p50_us", "p99_us", "limit_p50_us"})
      EXPECT_TRUE(row.contains(name)) << name;
}

TEST(node_program, configuration_is_checked_and_printed_without_starting) {
  auto node = std::string(PEERCACHE_CLI_DIR "/peercache-node");
  EXPECT_EQ(run_program({node, "--check-config"}).exit_code, 0);
  EXPECT_EQ(run_program({node, "--check-config", "--pool-size", "huge"}).exit_code, 2);
  EXPECT_EQ(run_program({node, "--no-such-flag"}).exit_code, 2);
  auto printed = run_program({node, "--print-config", "--pool-size", "64MiB"});
  EXPECT_EQ(printed.exit_code, 0);
  EXPECT_NE(printed.output.find("--pool-size"), std::string::npos) << "each value has its origin";
  EXPECT_EQ(run_program({node, "--version"}).exit_code, 0);
}

TEST(node_program, a_port_that_is_taken_is_a_failure_and_not_a_usage_error) {
  auto folder = cli::run_folder::make("peercache-real");
  ASSERT_TRUE(folder);
  cli::node_launch launch{.program = PEERCACHE_CLI_DIR "/peercache-node",
                          .name = "first",
                          .pool_bytes = 8u << 20,
                          .folder = folder->path()};
  auto first = cli::node_process::start(launch);
  ASSERT_TRUE(first) << first.error().message;
  auto second = run_program({launch.program, "--node-name", "second", "--pool-size", "8MiB",
                             "--net-control-port", std::to_string(first->ports().control_port),
                             "--net-data-port", "0", "--net-http-port", "0"});
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_EQ(first->stop(milliseconds(10'000)), 0) << "SIGTERM drains and ends with 0";
}

TEST(node_program, dev_mode_serves_in_less_than_two_seconds) {
  auto begin = clock::now();
  auto child = cli::child_process::spawn(
      {.arguments = {PEERCACHE_CLI_DIR "/peercache-node", "--dev", "--net-control-port", "0",
                     "--net-data-port", "0", "--net-http-port", "0"}});
  ASSERT_TRUE(child);
  auto line = child->read_line(milliseconds(10'000));
  ASSERT_TRUE(line);
  EXPECT_TRUE(cli::ready_line::parse(*line)) << *line;
  EXPECT_LT(clock::now() - begin, milliseconds(2000));
  child->signal(SIGINT);
  EXPECT_EQ(child->wait(milliseconds(10'000)), 0);
}

} // namespace peercache::real
