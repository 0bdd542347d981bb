// Tests of nodes behind a translation of addresses: what they advertise is not what they listen on.

#include "survival_ring.hpp"

#include <cstdlib>
#include <fstream>

namespace peercache::real::translated_test {

namespace {

constexpr std::uint32_t pages = 64;
const std::string inner = "192.168.77.2";

class translated : public survival_ring {
protected:
  /// Starts two nodes on hosts of their own, and makes a third host, whose address is translated.
  void SetUp() override {
    start_ring({.count = 2, .own_hosts = true, .spare_hosts = 1});
    if (HasFatalFailure() || IsSkipped())
      return;
    const auto done = lab().translate(2, inner);
    ASSERT_TRUE(done) << done.error().message;
  }
  cli::node_launch behind(std::vector<std::string> flags) const {
    auto launch = launch_of(2);
    launch.host = inner;
    launch.seeds = {nodes_.front().address()};
    launch.flags.insert(launch.flags.end(), flags.begin(), flags.end());
    return launch;
  }
};

TEST_F(translated, a_node_that_advertises_its_outer_address_is_a_member_like_others) {
  auto started = cli::node_process::start(behind({"--net-advertise", net_lab::address(2)}));
  ASSERT_TRUE(started) << started.error().message;
  nodes_.push_back(std::move(*started));
  for (const auto each : {0, 1})
    ASSERT_TRUE(within(milliseconds(20'000), [&] { return sees(each, 3); })) << each;
  const auto view = wait_for_view(0);
  ASSERT_TRUE(view);
  const auto* member = view->find_name("node-3");
  ASSERT_NE(member, nullptr);
  EXPECT_EQ(member->host, net_lab::address(2));
  std::vector<std::unique_ptr<client::cache_client>> clients;
  for (std::uint32_t i = 0; i < 3; ++i) {
    auto scope = at(i);
    clients.push_back(client_of(i));
    ASSERT_NE(clients.back(), nullptr) << i;
    put(*clients.back(), 1000 * i, pages); // By the hash ring each node owns some of the records.
  }
  for (std::uint32_t reader = 0; reader < 3; ++reader)
    for (std::uint32_t of = 0; of < 3; ++of)
      EXPECT_TRUE(all_readable(*clients[reader], 1000 * of, pages)) << reader << " reads " << of;
}

TEST_F(translated, a_node_that_advertises_its_inner_address_is_kept_out_and_says_why) {
  const auto launch = behind({});
  spawn_node(launch);
  const auto says = [&] {
    std::ifstream file(launch.folder / "node.log");
    const std::string log{std::istreambuf_iterator<char>(file), {}};
    return log.find("nobody answers at the address that it advertises, " + inner +
                    ":31998: "
                    "check its net.advertise") != std::string::npos;
  };
  EXPECT_TRUE(within(milliseconds(20'000), says));
  EXPECT_TRUE(sees(0, 2));
}

/// An engine in a container with a network of its own, which shares the socket folder and the
/// memory of its host. The address that it was given is one of its container.
class bridged : public survival_ring {
protected:
  static constexpr std::uint32_t host = 1, container = 2;

  void SetUp() override {
    start_ring({.count = 1, .own_hosts = true, .spare_hosts = 2});
    if (HasFatalFailure() || IsSkipped())
      return;
    const auto folder = (launch_of(host).folder.parent_path() / "sockets").string();
    auto launch = launch_of(host);
    launch.host = "0.0.0.0";
    launch.seeds = {nodes_.front().address()};
    launch.flags.insert(launch.flags.end(),
                        {"--net-advertise", net_lab::address(host), "--net-socket-folder", folder});
    auto started = cli::node_process::start(launch);
    ASSERT_TRUE(started) << started.error().message;
    nodes_.push_back(std::move(*started));
    ::setenv("PEERCACHE_NET_SOCKET_FOLDER", folder.c_str(), 1);
  }
  void TearDown() override {
    ::unsetenv("PEERCACHE_NET_SOCKET_FOLDER");
    survival_ring::TearDown();
  }
};

TEST_F(bridged, a_client_that_was_given_its_containers_address_reaches_its_hosts_node) {
  ASSERT_TRUE(within(milliseconds(20'000), [&] { return sees(0, 2); }));
  auto scope = at(container);
  std::uint32_t first = 0;
  for (const auto& given : {net_lab::address(container), net_lab::address(host)}) {
    const auto client = client_at(given, 31998);
    ASSERT_NE(client, nullptr) << given;
    put(*client, first += 1000, pages);
    EXPECT_TRUE(all_readable(*client, first, pages)) << given;
  }
}

} // namespace

} // namespace peercache::real::translated_test
