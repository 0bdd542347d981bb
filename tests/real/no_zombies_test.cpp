// Tests that a node which can no longer do its work says so, or ends, so that nobody waits for it.

#include "foreign_program.hpp"

#include <fstream>
#include <httplib.h>
#include <set>

namespace peercache::real::no_zombies_test {

namespace {

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class no_zombies : public foreign_program {
protected:
  std::string log_of(std::size_t index) {
    return text_of(node(index).launch().folder / "node.log");
  }
  /// Returns the HTTP status and the text of the node's /readyz.
  std::pair<int, std::string> readiness(std::size_t index) {
    httplib::Client http{"127.0.0.1", node(index).ports().http_port};
    const auto answer = http.Get("/readyz");
    return answer ? std::pair{answer->status, answer->body} : std::pair{0, std::string{}};
  }
  /// Kills an actor of node 1 by a message, and expects that the node ends. @pre the node's guard
  /// `frames` is off
  template <class Actor>
  void kill_and_expect_the_end(const Actor& victim, const std::string& name) {
    caf::anon_send_exit(victim, caf::exit_reason::kill);
    EXPECT_EQ(node(0).process().wait(milliseconds(10'000)), 1);
    EXPECT_NE(log_of(0).find(name + " has ended unasked"), std::string::npos) << log_of(0);
    auto client = client_of(1);
    put(*client, 0, 20);
    EXPECT_EQ(count_existing(*client, 0, 20), 20u) << "the others go on";
  }
};

/// Nodes with the guard `frames` switched off, so that tests can kill their actors by messages.
class no_zombies_unguarded : public no_zombies {
protected:
  void SetUp() override {
    prototype_.program = PEERCACHE_NODE_SWITCHABLE;
    prototype_.environment = {{"PEERCACHE_TEST_GUARDS_OFF", "frames"}};
    no_zombies::SetUp();
  }
};

TEST_F(no_zombies_unguarded, a_node_without_a_gateway_ends) {
  kill_and_expect_the_end(gateways_.front(), "the gateway");
}

/// Other nodes have the door as this node's directory.
TEST_F(no_zombies_unguarded, a_node_without_a_directorys_door_ends) {
  kill_and_expect_the_end(shards_.front(), "the directory's door");
}

TEST_F(no_zombies, a_node_whose_pool_object_is_gone_is_not_ready_and_says_why) {
  const auto session =
      ask<session_welcome>(gateways_.front(), session_atom_v, std::string{"me"}, events_);
  ASSERT_TRUE(session);
  EXPECT_EQ(readiness(0).first, 200);
  ASSERT_TRUE(std::filesystem::remove("/dev/shm" + session->pool_name));
  EXPECT_TRUE(within(milliseconds(10'000), [this] { return readiness(0).first == 503; }));
  EXPECT_NE(readiness(0).second.find(session->pool_name + " is gone"), std::string::npos)
      << readiness(0).second;
  EXPECT_TRUE(within(milliseconds(10'000), [&] {
    return log_of(0).find(session->pool_name + " is gone") != std::string::npos;
  }));
}

/// Runs a single node with at most `bytes` of address space, until it is ready or has ended.
/// Returns its exit status; nothing when it became ready.
std::optional<int> start_with_address_space(std::uint64_t bytes, const std::filesystem::path& log) {
  cli::node_launch launch;
  launch.program = std::string(PEERCACHE_CLI_DIR) + "/peercache-node";
  launch.name = "small";
  launch.pool_bytes = 64u << 20;
  launch.folder = log.parent_path();
  auto arguments = cli::arguments_of(launch);
  arguments.insert(arguments.begin(), {"/usr/bin/prlimit", "--as=" + std::to_string(bytes)});
  auto child = cli::child_process::spawn({.arguments = arguments, .stderr_path = log});
  if (!child)
    return -1;
  if (const auto line = child->read_line(milliseconds(20'000)); line)
    return std::nullopt;
  return child->wait(milliseconds(10'000)).value_or(-1);
}

TEST(too_small_a_host, ends_a_node_with_an_error_line_and_exit_code_1) {
  auto folder = cli::run_folder::make("peercache-small-");
  ASSERT_TRUE(folder);
  std::set<std::optional<int>> seen;
  for (std::uint64_t mib = 120; mib <= 1000 && !seen.contains(std::nullopt); mib += 40) {
    const auto log = folder->path() / (std::to_string(mib) + ".log");
    const auto status = start_with_address_space(mib << 20, log);
    seen.insert(status);
    if (!status || status == 127)
      continue; // The node had enough address space, or too little to load its libraries.
    EXPECT_EQ(*status, 1) << mib << " MiB: " << text_of(log);
    EXPECT_NE(text_of(log).find("error"), std::string::npos) << mib << " MiB: " << text_of(log);
  }
  EXPECT_TRUE(seen.contains(1)) << "no size is too small";
}

} // namespace

} // namespace peercache::real::no_zombies_test
