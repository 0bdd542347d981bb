#include "local_ring.hpp"
#include "net/socket.hpp"

#include <vector>

namespace peercache::real::start_test {

namespace {

/// Tries to start a node that cannot start. Returns the node's last words.
std::string why_it_cannot_start(const cli::node_launch& launch) {
  auto node = cli::node_process::start(launch);
  EXPECT_FALSE(node);
  return node ? "" : node.error().message;
}

} // namespace

TEST(start, a_port_that_is_in_use_is_told_before_any_memory_is_taken) {
  auto folder = cli::run_folder::make("peercache-start");
  ASSERT_TRUE(folder);
  cli::node_launch launch{.program = PEERCACHE_CLI_DIR "/peercache-node", .name = "late"};
  launch.folder = folder->path();
  // No host has this much memory (8 TiB), so even without another fault the start fails, at the
  // pool.
  launch.pool_bytes = std::uint64_t{1} << 43;
  ASSERT_NE(why_it_cannot_start(launch).find("lower pool.size"), std::string::npos);
  auto taken = net::listen_on("127.0.0.1", 0, 1);
  ASSERT_TRUE(taken);
  const auto port = net::local_port(*taken);
  std::vector<cli::node_launch> wrong(4, launch);
  wrong[0].control_port = wrong[1].data_port = wrong[2].http_port = port;
  wrong[3].flags = {"--net-lookup-port", std::to_string(port)};
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    auto& each = wrong[i];
    // Each node gets a folder of its own, because its last words are the end of its log, and nodes
    // append to their logs.
    each.folder /= std::to_string(i);
    const auto said = why_it_cannot_start(each);
    EXPECT_NE(said.find("cannot listen on 127.0.0.1:" + std::to_string(port)), std::string::npos)
        << said;
  }
}

} // namespace peercache::real::start_test
