// Tests of what a node does at its start when it cannot make its Unix socket.
#include "local_ring.hpp"
#include "net/host_socket.hpp"
#include "net/socket.hpp"
#include "tests/support/certificates.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <iterator>
#include <optional>
#include <sys/stat.h>

namespace peercache::real::host_socket_start_test {
namespace {

using testing::HasSubstr;

/// A node that starts at a port whose Unix socket this process may have bound before. The node uses
/// the default folder for sockets.
class host_socket_start : public testing::Test {
protected:
  void SetUp() override {
    ::unsetenv(net::host_socket_variable);
    auto made = cli::run_folder::make("peercache-socket");
    ASSERT_TRUE(made);
    folder_.emplace(std::move(*made));
    launch.folder = folder_->path() / "node";
    const auto unused = net::listen_on("127.0.0.1", 0, 1);
    ASSERT_TRUE(unused);
    launch.control_port = net::local_port(*unused);
  }

  /// Binds the Unix socket of the node's port. @param group the group of the node, which may
  /// connect
  void take_the_name(std::optional<gid_t> group = {}) {
    auto taken =
        net::host_socket::listen({"", "127.0.0.1", "127.0.0.1", launch.control_port, group});
    ASSERT_TRUE(taken) << taken.error().message;
    taken_.emplace(std::move(*taken));
  }
  std::string log() const {
    std::ifstream file(launch.folder / "node.log");
    return {std::istreambuf_iterator<char>(file), {}};
  }
  /// Starts the node, which must fail. Returns the node's last words.
  std::string last_words() const {
    const auto node = cli::node_process::start(launch);
    return node ? "it has started" : node.error().message;
  }
  std::string path_of(const char* name) const { return (folder_->path() / name).string(); }

  cli::node_launch launch{
      .program = PEERCACHE_CLI_DIR "/peercache-node", .name = "alone", .pool_bytes = 32u << 20};

private:
  std::optional<cli::run_folder> folder_;
  std::optional<net::host_socket> taken_;
};

TEST_F(host_socket_start, a_node_without_tls_goes_on_without_its_socket_and_says_so) {
  take_the_name();
  auto node = cli::node_process::start(launch);
  ASSERT_TRUE(node) << node.error().message;
  EXPECT_THAT(log(), HasSubstr("another node serves there"));
  EXPECT_THAT(log(), HasSubstr("clients of this host come by the control port"));
  EXPECT_EQ(node->stop(milliseconds(20'000)), 0);
}

TEST_F(host_socket_start, a_node_does_not_start_without_a_socket_in_the_folder_that_was_chosen) {
  const auto chosen = path_of("open");
  ASSERT_EQ(::mkdir(chosen.c_str(), 0700), 0);
  ASSERT_EQ(::chmod(chosen.c_str(), 0770), 0);
  launch.flags = {"--net-socket-folder", chosen};
  const auto said = last_words();
  EXPECT_THAT(said, HasSubstr(chosen));
  EXPECT_THAT(said, HasSubstr("other users may write to it"));
}

TEST_F(host_socket_start, a_node_under_tls_does_not_start_without_its_socket) {
  const certificates ca(launch.cluster);
  const auto files = ca.node(launch.name);
  launch.tls = tls_paths(files);
  take_the_name();
  EXPECT_THAT(last_words(), HasSubstr("another node serves there"));
}

TEST_F(host_socket_start, a_node_that_serves_a_group_does_not_start_without_its_socket) {
  if (::geteuid() != 0)
    GTEST_SKIP() << "only root makes /run/peercache";
  struct stat before {};
  const bool was_there = ::stat("/run/peercache", &before) == 0;
  take_the_name(::getegid());
  launch.flags = {"--node-group", std::to_string(::getegid())};
  EXPECT_THAT(last_words(), HasSubstr("another node serves there"));
  if (was_there) { // Undoes that the node's group was let into the folder.
    EXPECT_EQ(::chmod("/run/peercache", before.st_mode & 07777), 0);
  }
}

} // namespace
} // namespace peercache::real::host_socket_start_test
