#include "local_ring.hpp"
#include "net/socket.hpp"

#include <csignal>
#include <fstream>
#include <netinet/in.h>
#include <string_view>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace peercache::real::connect_test {

namespace {

using new_client = local_ring;

constexpr std::uint32_t pages = 64;

} // namespace

TEST_F(new_client, can_ask_every_member_at_once) {
  put(*client_of(1), 0, pages);
  std::vector<page_key> keys;
  for (std::uint32_t id = 0; id < pages; ++id)
    keys.push_back(key_of(id));
  for (int round = 0; round < 30; ++round) {
    auto client = client_of(0);
    ASSERT_NE(client, nullptr);
    std::vector<client::page_result> results(pages);
    client->exists(keys, results);
    for (const auto& page : results)
      ASSERT_EQ(to_string(page.status), to_string(page_status::hit)) << "client " << round;
  }
}

/// Returns how many bytes of shared memory objects whose path contains `object_name` are mapped and
/// resident in this process.
std::uint64_t resident(const std::string& object_name) {
  std::ifstream maps("/proc/self/smaps");
  std::uint64_t bytes = 0;
  bool is_ours = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.find(" /") != std::string::npos)
      is_ours = line.find(object_name) != std::string::npos;
    if (is_ours && line.starts_with("Rss:"))
      bytes += std::stoull(line.substr(4)) * 1024;
  }
  return bytes;
}

TEST_F(new_client, has_no_more_of_the_pool_in_its_page_tables_than_it_uses) {
  auto client = client_of(0);
  ASSERT_NE(client, nullptr);
  put(*client, 0, pages);
  for (std::uint32_t id = 0; id < pages; ++id)
    EXPECT_EQ(get(*client, id).result.status, page_status::hit);
  constexpr std::uint64_t used = std::uint64_t{pages} * page_bytes;
  const auto now = resident("/dev/shm/peercache-node-1-");
  EXPECT_GE(now, used);
  EXPECT_LE(now, 4 * used) << "the kernel enters some pages around those that are read";
}

TEST_F(new_client, waits_for_a_silent_member_no_longer_than_a_dial_may_take) {
  put(*client_of(1), 0, pages);
  freeze(2);
  auto took = testing::AssertionFailure();
  for (int round = 0; round < rounds_max && !took; ++round) {
    const auto begin = clock::now();
    auto client = client_of(0, milliseconds(5000));
    took = took_at_most(milliseconds(1100), begin);
    ASSERT_NE(client, nullptr);
    EXPECT_GT(count_existing(*client, 0, pages), 0u);
  }
  EXPECT_TRUE(took) << "its handshake is given up after 1.2 s";
  node(2).process().signal(SIGCONT);
}

TEST_F(new_client, of_a_frozen_node_is_given_up_at_the_deadline) {
  freeze(0);
  client::client_options options;
  options.node_host = node(0).launch().host;
  options.node_port = node(0).ports().control_port;
  options.cluster = cluster();
  options.timeout = milliseconds(200);
  auto took = testing::AssertionFailure();
  for (int round = 0; round < rounds_max && !took; ++round) {
    const auto begin = clock::now();
    EXPECT_FALSE(client::cache_client::connect(options));
    took = took_at_most(milliseconds(250), begin);
  }
  EXPECT_TRUE(took);
  node(0).process().signal(SIGCONT);
}

/// The peer is an HTTP server, which answers CAF's greeting because that has the end of a line in
/// it.
TEST(stranger, that_says_something_else_is_no_node) {
  net::unique_fd listener{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&at), size), 0);
  ASSERT_EQ(::listen(listener.get(), 4), 0);
  ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&at), &size), 0);
  std::thread server([&listener] {
    const std::string_view refusal = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
    for (int caller = ::accept(listener.get(), nullptr, nullptr); caller >= 0;
         caller = ::accept(listener.get(), nullptr, nullptr)) {
      EXPECT_EQ(::send(caller, refusal.data(), refusal.size(), MSG_NOSIGNAL),
                static_cast<ssize_t>(refusal.size()));
      ::close(caller);
    }
  });
  const auto lost =
      run_cli({"ping", "-o", "json", "--node", "127.0.0.1:" + std::to_string(ntohs(at.sin_port))});
  ::shutdown(listener.get(), SHUT_RDWR);
  server.join();
  EXPECT_EQ(lost.exit_code, 4);
  const auto message = lost.json()["error"]["message"].get<std::string>();
  EXPECT_NE(message.find("no peercache-node answers at"), std::string::npos) << message;
}

} // namespace peercache::real::connect_test
