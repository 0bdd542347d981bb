#include "local_ring.hpp"
#include "survival_ring.hpp"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <unistd.h>

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
  auto elsewhere = run_cli({"put", "greeting", "--value", "hello", "-o", "json", "--cluster",
                            cluster(), "--node", address(1)});
  EXPECT_EQ(elsewhere.json()["status"], "duplicate") << "node-1 has it, node-2 dropped its copy";
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
  EXPECT_EQ(explained.json()["owners"].size(), 2u);
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

TEST_F(cli_ring, status_names_the_frozen_node_and_what_it_means) {
  ASSERT_TRUE(within(milliseconds(10'000), [&] { return ask({"status"}).exit_code == 0; }));
  const auto well = ask({"status"}).json();
  EXPECT_FALSE(well["degraded"].get<bool>());
  EXPECT_EQ(well["masters"][0], "node-1");
  node(2).process().signal(SIGSTOP);
  finished_program status;
  auto took = testing::AssertionFailure();
  for (int round = 0; round < rounds_max && !took; ++round) {
    const auto asked = clock::now();
    status = ask({"status", "--timeout", "300ms"});
    took = took_at_most(milliseconds(3000), asked);
  }
  EXPECT_TRUE(took);
  node(2).process().signal(SIGCONT);
  EXPECT_EQ(status.exit_code, 3);
  const auto ill = status.json();
  EXPECT_TRUE(ill["degraded"].get<bool>());
  EXPECT_EQ(ill["nodes"][0]["state"], "ready");
  EXPECT_NE(ill["nodes"][2]["state"], "ready");
  ASSERT_FALSE(ill["faults"].empty());
  EXPECT_NE(ill["faults"][0]["text"].get<std::string>().find("node-3 does not answer"),
            std::string::npos)
      << ill["faults"];
}

using cli_of_five = survival_ring;

/// The fourth node is not a master (masters are node-1, the head, and by their ids node-2 and
/// node-5): it sends its heartbeats to masters only, but it has links to all other members.
TEST_F(cli_of_five, a_cluster_with_more_members_than_masters_is_well) {
  start_ring({.count = 5});
  if (HasFatalFailure())
    return;
  auto status_of_a_plain_member = [this] {
    return run_cli({"status", "-o", "json", "--cluster", cluster(), "--node", address(3)});
  };
  EXPECT_TRUE(
      within(milliseconds(10'000), [&] { return status_of_a_plain_member().exit_code == 0; }));
  const auto said = status_of_a_plain_member().json();
  EXPECT_FALSE(said["degraded"].get<bool>()) << said["faults"];
  EXPECT_EQ(said["links"], 4);
}

TEST_F(cli_ring, ring_and_shards_account_for_every_key_and_record) {
  for (const char* key : {"a", "b", "c", "d", "e"})
    EXPECT_EQ(ask({"put", key, "--value", "x"}).exit_code, 0);
  const auto ring = ask({"ring"}).json();
  double first = 0, listed = 0;
  for (const auto& node : ring["nodes"]) {
    first += node["first_owner_share"].get<double>();
    listed += node["owner_share"].get<double>();
    EXPECT_NEAR(node["to_mean"].get<double>(), node["owner_share"].get<double>() * 3 / 2, 1e-9);
  }
  EXPECT_NEAR(first, 1, 1e-9);
  EXPECT_NEAR(listed, ring["replicas"].get<double>(), 1e-9);
  const auto shards = ask({"shard", "ls"}).json();
  std::uint64_t records = 0;
  for (const auto& shard : shards["shards"])
    records += shard["records"].get<std::uint64_t>();
  EXPECT_EQ(records, 5 * 2u);
  const auto shard = ask({"shard", "show", "node-2"}).json();
  EXPECT_EQ(shard["node"], "node-2");
  EXPECT_EQ(shard["records"], shards["shards"][1]["records"]);
  EXPECT_EQ(shard["records_of"].value("node-1", std::uint64_t{0}), shard["records"]);
  EXPECT_EQ(ask({"shard", "show", "nobody"}).exit_code, 1);
}

/// Commands that need a session with the node are refused, too, long before their time-out of 30 s.
TEST_F(cli_ring, another_clusters_name_is_refused_and_the_node_tells_none) {
  for (const char* command : {"status", "nodes", "ping", "get", "exists", "put", "rm"}) {
    std::vector<std::string> words{command, "-o", "json", "--node", address(0), "--cluster"};
    words.insert(words.end(), {"another", "--timeout", "30s"});
    if (std::string_view("get exists put rm").find(command) != std::string_view::npos)
      words.push_back("key");
    if (std::string_view(command) == "put")
      words.insert(words.end(), {"--value", "x"});
    auto begin = clock::now();
    auto refused = run_cli(words);
    EXPECT_LT(clock::now() - begin, milliseconds(10'000)) << command;
    EXPECT_EQ(refused.exit_code, 4) << command;
    ASSERT_TRUE(refused.json().contains("error")) << command << refused.output;
    auto error = refused.json()["error"];
    EXPECT_EQ(error["code"], "incompatible") << command;
    auto message = error["message"].get<std::string>();
    for (const auto& part : {std::string("'another'"), address(0), std::string("--cluster")})
      EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_EQ(message.find(cluster()), std::string::npos) << message;
    EXPECT_EQ(message.find("error("), std::string::npos) << message;
  }
}

TEST(cli, nobody_at_the_address_is_unreachable) {
  for (const char* command : {"ping", "exists"}) {
    auto alone = run_cli({command, "-o", "json", "--node", "127.0.0.1:1", "--timeout", "500ms",
                          std::string_view(command) == "ping" ? "-c1" : "key"});
    EXPECT_EQ(alone.exit_code, 4);
    ASSERT_TRUE(alone.json().contains("error")) << alone.output;
    auto message = alone.json()["error"]["message"].get<std::string>();
    for (const char* part : {"no peercache-node answers at 127.0.0.1:1: Connection refused",
                             "peercache-node --dev", "--node HOST:PORT"})
      EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_EQ(message.find("error("), std::string::npos) << message;
  }
}

TEST(cli, a_name_that_nobody_has_is_unreachable_too) {
  for (const char* command : {"ping", "exists"}) {
    auto lost = run_cli({command, "-o", "json", "--node", "no-such-host.invalid",
                         std::string_view(command) == "ping" ? "-c1" : "key"});
    EXPECT_EQ(lost.exit_code, 4);
    ASSERT_TRUE(lost.json().contains("error")) << lost.output;
    auto message = lost.json()["error"]["message"].get<std::string>();
    for (const char* part :
         {"no peercache-node answers at no-such-host.invalid:31998: ", "--node HOST:PORT"})
      EXPECT_NE(message.find(part), std::string::npos) << message;
  }
}

TEST_F(cli_ring, a_port_that_is_no_control_port_is_told_without_cafs_words) {
  for (auto port : {node(0).ports().data_port, node(0).ports().http_port}) {
    auto lost = run_cli(
        {"ping", "-o", "json", "--node", "127.0.0.1:" + std::to_string(port), "--timeout", "1s"});
    EXPECT_EQ(lost.exit_code, 4);
    auto message = lost.json()["error"]["message"].get<std::string>();
    EXPECT_NE(message.find("no peercache-node answers at"), std::string::npos) << message;
    EXPECT_EQ(message.find("error("), std::string::npos) << message;
  }
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

TEST(cli, a_demo_under_tls_gives_no_wrong_bytes) {
  auto demo = run_cli({"demo", "--tls", "--requests", "80", "--pool-size", "4MiB", "--data-plane",
                       "tcp", "-o", "json"});
  EXPECT_EQ(demo.exit_code, 0) << demo.output;
  auto report = demo.json();
  EXPECT_EQ(report["wrong_bytes"], 0);
  EXPECT_GT(report["hits"].get<int>(), 0);
}

/// When the demo finds a fault before it starts a node, it reports nothing but this fault, and
/// leaves no folder behind.
TEST(cli, a_demo_that_cannot_begin_is_a_usage_error_and_leaves_no_folder) {
  auto folder = cli::run_folder::make("peercache-real");
  ASSERT_TRUE(folder);
  auto broken = (folder->path() / "broken.jsonl").string();
  std::ofstream(broken) << "no json\n";
  auto empty = (folder->path() / "empty.jsonl").string();
  std::ofstream{empty};
  auto temporary = folder->path() / "tmp";
  std::filesystem::create_directory(temporary);
  for (const std::vector<std::string>& wrong : {std::vector<std::string>{"--trace", broken},
                                                {"--trace", empty},
                                                {"--trace", "/no/such"},
                                                {"--trace", folder->path().string()},
                                                {"--pool-size", "64TiB"},
                                                {"--pool-size", "8TiB"},
                                                {"--pool-size", "4KiB", "--page-size", "8"},
                                                {"--page-size", "3"}}) {
    std::vector<std::string> words{"/usr/bin/env",
                                   "TMPDIR=" + temporary.string(),
                                   PEERCACHE_CLI_DIR "/peercache",
                                   "demo",
                                   "-o",
                                   "json"};
    words.insert(words.end(), wrong.begin(), wrong.end());
    auto demo = run_program(words);
    EXPECT_EQ(demo.exit_code, 2) << wrong[1];
    ASSERT_TRUE(demo.json().contains("error")) << demo.output;
    auto message = demo.json()["error"]["message"].get<std::string>();
    EXPECT_NE(message.find("--"), std::string::npos) << "names the option: " << message;
    EXPECT_TRUE(std::filesystem::is_empty(temporary)) << wrong[1];
  }
}

TEST(cli, an_unknown_variable_of_ours_is_a_usage_error_in_both_programs) {
  auto with = [](const char* variable, std::vector<std::string> words) {
    words.insert(words.begin(), {"/usr/bin/env", variable});
    return run_program(words).exit_code;
  };
  std::vector<std::string> version{PEERCACHE_CLI_DIR "/peercache", "version"};
  std::vector<std::string> check{PEERCACHE_CLI_DIR "/peercache-node", "--check-config"};
  for (const auto& words : {version, check}) {
    EXPECT_EQ(with("PEERCACHE_TIMEOUT=1", words), 2);
    EXPECT_EQ(with("PEERCACHE_POLL_SIZE=1GiB", words), 2);
    EXPECT_EQ(with("PEERCACHE_POOL_SIZE=1GiB", words), 0);
    EXPECT_EQ(with("PEERCACHE_SERVICE_HOST=10.0.0.1", words), 0);
  }
  EXPECT_EQ(with("PEERCACHE_TIMEOUT=1", {PEERCACHE_CLI_DIR "/peercache", "--help"}), 0)
      << "help helps whatever is wrong";
}

TEST_F(cli_ring, a_node_that_its_seed_refuses_says_so_in_its_log) {
  auto folder = cli::run_folder::make("peercache-real");
  ASSERT_TRUE(folder);
  auto log = (folder->path() / "node.log").string();
  auto child = cli::child_process::spawn(
      {.arguments = {PEERCACHE_CLI_DIR "/peercache-node", "--dev", "--node-name", "stranger",
                     "--cluster-name", "another", "--pool-size", "8MiB", "--discovery-seeds",
                     address(0), "--net-control-port", "0", "--net-data-port", "0",
                     "--net-http-port", "0"},
       .stderr_path = log});
  ASSERT_TRUE(child);
  EXPECT_TRUE(within(milliseconds(20'000), [&] {
    std::ifstream file(log);
    std::string text{std::istreambuf_iterator<char>(file), {}};
    return text.find(address(0) + ": ") != std::string::npos &&
           text.find("'another'") != std::string::npos;
  }));
}

/// The tested message is the first that somebody sees who has mistyped the address of a seed.
TEST(cli, a_node_without_a_cluster_says_so) {
  auto folder = cli::run_folder::make("peercache-real");
  ASSERT_TRUE(folder);
  const auto own = ::getpid();
  const auto host = "127.77." + std::to_string(own / 256 % 256) + "." + std::to_string(own % 256);
  auto lone = cli::child_process::spawn(
      {.arguments = {PEERCACHE_CLI_DIR "/peercache-node", "--node-name", "lone", "--net-bind", host,
                     "--pool-size", "8MiB", "--insecure-cluster", "--discovery-seeds", host + ":1"},
       .stderr_path = (folder->path() / "node.log").string()});
  ASSERT_TRUE(lone);
  finished_program status;
  ASSERT_TRUE(within(milliseconds(20'000), [&] {
    status = run_cli({"status", "-o", "json", "--node", host + ":31998"});
    return status.exit_code != 4;
  })) << status.output;
  EXPECT_EQ(status.exit_code, 3);
  EXPECT_NE(status.output.find("lone is in no cluster: joining"), std::string::npos)
      << status.output;
}

TEST_F(cli_ring, the_node_to_ask_comes_from_the_environment_too) {
  auto port = "PEERCACHE_CLIENT_NODE_PORT=" + std::to_string(node(1).ports().control_port);
  auto ping = run_program({"/usr/bin/env", port, "PEERCACHE_CLUSTER_NAME=" + cluster(),
                           PEERCACHE_CLI_DIR "/peercache", "ping", "-o", "json"});
  EXPECT_EQ(ping.exit_code, 0);
  EXPECT_EQ(ping.json()["node"], "node-2");
}

TEST(cli, bench_gives_results_in_the_agreed_form) {
  auto bench = run_cli({"bench", "--only", "exists", "--rounds", "1", "--calls", "20", "--memory",
                        "128MiB", "--pool-size", "512MiB", "-o", "json"});
  EXPECT_EQ(bench.exit_code, 0);
  auto results = bench.json()["results"];
  ASSERT_EQ(results.size(), 2u);
  for (const auto& row : results)
    EXPECT_GT(row.value("directory_messages", 0), 0) << "another node is asked";
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

} // namespace peercache::real
