#include "local_ring.hpp"
#include "tests/support/notify_socket.hpp"

#include <csignal>

namespace peercache::real::service_manager_test {

TEST(service_manager, is_told_when_the_node_serves_and_when_it_begins_to_stop) {
  auto folder = cli::run_folder::make("peercache-notify");
  ASSERT_TRUE(folder);
  tests::notify_socket manager((folder->path() / "notify").string());
  cli::node_launch launch{.program = PEERCACHE_CLI_DIR "/peercache-node", .name = "unit"};
  launch.folder = folder->path();
  launch.pool_bytes = 64u << 20;
  launch.environment = {{"NOTIFY_SOCKET", manager.address()}};
  auto node = cli::node_process::start(launch);
  ASSERT_TRUE(node) << node.error().message;
  EXPECT_EQ(manager.next(milliseconds(10'000)), "READY=1");
  EXPECT_EQ(manager.next(milliseconds(0)), std::nullopt);
  node->ask_to_stop();
  EXPECT_EQ(manager.next(milliseconds(10'000)), "STOPPING=1");
  EXPECT_EQ(node->stop(milliseconds(20'000)), 0);
  EXPECT_EQ(manager.next(milliseconds(0)), std::nullopt);
}

TEST(service_manager, that_is_gone_keeps_no_node_from_serving) {
  auto folder = cli::run_folder::make("peercache-notify");
  ASSERT_TRUE(folder);
  cli::node_launch launch{.program = PEERCACHE_CLI_DIR "/peercache-node", .name = "unit"};
  launch.folder = folder->path();
  launch.pool_bytes = 64u << 20;
  launch.environment = {{"NOTIFY_SOCKET", (folder->path() / "nobody").string()}};
  auto node = cli::node_process::start(launch);
  ASSERT_TRUE(node) << node.error().message;
  EXPECT_EQ(node->stop(milliseconds(20'000)), 0);
}

} // namespace peercache::real::service_manager_test
