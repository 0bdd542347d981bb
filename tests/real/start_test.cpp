#include "local_ring.hpp"
#include "net/socket.hpp"

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
  // No host has so much memory, so a start without another fault ends at the pool.
  launch.pool_bytes = std::uint64_t{1} << 43;
  ASSERT_NE(why_it_cannot_start(launch).find("lower pool.size"), std::string::npos);
  auto taken = net::listen_on("127.0.0.1", 0, 1);
  ASSERT_TRUE(taken);
  const auto port = net::local_port(*taken);
  for (auto cli::node_launch::*which :
       {&cli::node_launch::control_port, &cli::node_launch::data_port,
        &cli::node_launch::http_port}) {
    auto wrong = launch;
    wrong.*which = port;
    const auto said = why_it_cannot_start(wrong);
    EXPECT_NE(said.find("cannot listen on 127.0.0.1:" + std::to_string(port)), std::string::npos)
        << said;
  }
}

} // namespace peercache::real::start_test
