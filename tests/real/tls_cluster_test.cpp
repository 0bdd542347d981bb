// Tests of which programs may talk to three nodes under TLS.
#include "local_ring.hpp"
#include "net/socket.hpp"
#include "rdma/tcp/tcp_protocol.hpp"
#include "tests/net/tls_stranger.hpp"
#include "tests/support/certificates.hpp"

#include <atomic>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <iterator>
#include <poll.h>
#include <sys/socket.h>
#include <thread>

namespace peercache::real::tls_cluster_test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class tls_cluster : public local_ring {
protected:
  void SetUp() override {
    certificate_of_ = [this](const std::string& name) -> result<tls_paths> {
      return tls_paths(ca_.node(name));
    };
    prototype_.cluster = ca_.authority().cluster();
    local_ring::SetUp();
  }

  client::client_options options_for(std::size_t index, const tls_paths& tls) {
    client::client_options options;
    options.node_host = "127.0.0.1";
    options.node_port = node(index).ports().control_port;
    options.cluster = cluster();
    options.tls = tls;
    return options;
  }
  std::unique_ptr<client::cache_client> member(std::size_t index) {
    auto made = client::cache_client::connect(options_for(index, client_files_));
    EXPECT_TRUE(made) << made.error().message;
    return made ? std::move(*made) : nullptr;
  }
  void expect_pages_to_pass(client::cache_client& writer, client::cache_client& reader) {
    put(writer, 0, 40);
    for (std::uint32_t id = 0; id < 40; ++id) {
      const auto read = get(reader, id);
      EXPECT_EQ(to_string(read.result.status), to_string(page_status::hit));
      EXPECT_EQ(read.check.wrong_bytes, 0u);
    }
  }
  std::string log_of(std::size_t index) {
    std::ifstream file(nodes_[index].launch().folder / "node.log");
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const certificates ca_{"tls-" + std::to_string(::getpid())};
  const net::tls_files client_files_ = ca_.client("engine");
};

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

TEST_F(tls_cluster, stores_and_gets_pages_and_answers_the_command_line) {
  auto first = member(0), second = member(1);
  ASSERT_TRUE(first && second);
  expect_pages_to_pass(*first, *second);
  const std::vector<std::string> here{"--node", address(0), "--cluster", cluster()};
  auto words = here;
  words.insert(words.end(), {"--tls-cert", client_files_.certificate, "--tls-key",
                             client_files_.key, "--tls-ca", client_files_.authority, "nodes"});
  const auto told = run_cli(words);
  EXPECT_EQ(told.exit_code, 0) << told.output;
  EXPECT_THAT(told.output, HasSubstr("node-3"));
  words = here;
  words.push_back("ping");
  EXPECT_EQ(run_cli(words).exit_code, 0) << "the node's user needs no certificate on its host";
}

TEST_F(tls_cluster, lets_in_nobody_else_and_says_so_once) {
  certificates other_ca(cluster());
  const auto expired = ca_.issue(net::tls_role::client, "late", std::chrono::seconds(-60));
  EXPECT_FALSE(client::cache_client::connect(options_for(0, {})));
  EXPECT_FALSE(client::cache_client::connect(options_for(0, other_ca.client())));
  EXPECT_FALSE(client::cache_client::connect(options_for(0, expired)));
  for (int i = 0; i < 20; ++i) {
    auto plain = net::start_connect("127.0.0.1", node(0).ports().control_port, {});
    ASSERT_TRUE(plain);
    pollfd ready{plain->get(), POLLOUT, 0};
    ASSERT_EQ(::poll(&ready, 1, 5000), 1);
    ASSERT_GT(::send(plain->get(), "no TLS at all", 13, MSG_NOSIGNAL), 0);
    ready.events = POLLIN;
    ASSERT_EQ(::poll(&ready, 1, 5000), 1) << "neither answered nor dropped";
  }
  EXPECT_EQ(count_of(log_of(0), "tls: refused a connection from 127.0.0.1"), 1u) << log_of(0);
  auto still = member(0);
  ASSERT_TRUE(still);
  put(*still, 0, 1);
}

/// Whether the port answers inside TLS to a peer with these certificate files (null: none). Fails
/// the test when the port neither answers nor hangs up within 2.5 s: the node's 2 s, and the time
/// of a handshake.
bool answers(std::uint16_t port, const net::tls_files* shown) {
  auto socket = net::start_connect("127.0.0.1", port, {});
  EXPECT_TRUE(socket);
  net::tls_stranger who(socket->get(), shown);
  rdma::hello say;
  say.extent = rdma::tls_extent::handshake;
  bool said = false, heard = false, over = false;
  const auto until = clock::now() + milliseconds(2500);
  while (!heard && !over && clock::now() < until) {
    pollfd ready{socket->get(), POLLIN, 0};
    ::poll(&ready, 1, 20);
    who.shake_hands();
    said = said || who.say(&say, sizeof say);
    heard = who.hears() && said; // The read also takes the alert of a refusal.
    char next;
    const auto got = ::recv(socket->get(), &next, 1, MSG_PEEK | MSG_DONTWAIT);
    over = got == 0 || (got < 0 && errno != EAGAIN && errno != ENOTCONN);
  }
  EXPECT_TRUE(heard || over);
  return heard;
}

TEST_F(tls_cluster, the_data_port_answers_members_alone_and_says_so_once) {
  std::signal(SIGPIPE, SIG_IGN); // OpenSSL's own sockets raise SIGPIPE.
  const auto port = node(0).ports().data_port;
  const auto own = ca_.client("another");
  EXPECT_TRUE(answers(port, &own)) << "else nobody would be answered";
  const certificates other_ca(cluster()), elsewhere("elsewhere");
  const auto of_other_ca = other_ca.client(), of_elsewhere = elsewhere.client();
  const auto expired = ca_.issue(net::tls_role::client, "late", std::chrono::seconds(-60));
  EXPECT_FALSE(answers(port, nullptr)) << "no certificate";
  EXPECT_FALSE(answers(port, &of_other_ca)) << "another CA";
  EXPECT_FALSE(answers(port, &of_elsewhere)) << "another cluster";
  EXPECT_FALSE(answers(port, &expired)) << "expired";
  auto plain = net::start_connect("127.0.0.1", port, {});
  ASSERT_TRUE(plain);
  pollfd ready{plain->get(), POLLOUT, 0};
  ASSERT_EQ(::poll(&ready, 1, 5000), 1);
  const rdma::hello say;
  ASSERT_EQ(::send(plain->get(), &say, sizeof say, MSG_NOSIGNAL), ssize_t(sizeof say));
  std::size_t said = 0;
  char bytes[64];
  ready.events = POLLIN;
  for (ssize_t got = 1; got > 0 && ::poll(&ready, 1, 5000) == 1; said += got > 0 ? got : 0)
    got = ::recv(plain->get(), bytes, sizeof bytes, MSG_DONTWAIT);
  EXPECT_LT(said, 16u) << "an alert of TLS, and no more";
  EXPECT_EQ(count_of(log_of(0), "tls: refused a connection from 127.0.0.1"), 1u) << log_of(0);
}

/// Returns the first line of what the HTTP port answers to a peer with these certificate files
/// (null: none).
std::string http_answer(std::uint16_t port, const std::string& path, const net::tls_files* shown) {
  auto socket = net::start_connect("127.0.0.1", port, {});
  EXPECT_TRUE(socket);
  pollfd ready{socket->get(), POLLOUT, 0};
  EXPECT_EQ(::poll(&ready, 1, 5000), 1);
  ::fcntl(socket->get(), F_SETFL, ::fcntl(socket->get(), F_GETFL) & ~O_NONBLOCK);
  net::tls_stranger who(socket->get(), shown);
  const auto request = "GET " + path + " HTTP/1.1\r\nHost: node-1\r\n\r\n";
  who.shake_hands();
  who.say(request.data(), static_cast<int>(request.size()));
  const auto all = who.hears_all();
  return all.substr(0, all.find("\r\n"));
}

TEST_F(tls_cluster, the_http_port_answers_members_and_health_checks) {
  std::signal(SIGPIPE, SIG_IGN); // OpenSSL's own sockets raise SIGPIPE.
  const auto port = node(0).ports().http_port;
  const auto prometheus = ca_.client("prometheus");
  EXPECT_THAT(http_answer(port, "/metrics", &prometheus), HasSubstr(" 200 "));
  EXPECT_THAT(http_answer(port, "/metrics", nullptr), HasSubstr(" 403 "));
  EXPECT_THAT(http_answer(port, "/readyz", nullptr), HasSubstr(" 200 "));
  const certificates other_ca(cluster());
  const auto of_other_ca = other_ca.client();
  EXPECT_EQ(http_answer(port, "/readyz", &of_other_ca), "");
  EXPECT_EQ(count_of(log_of(0), "HTTP: refused 127.0.0.1"), 1u) << log_of(0);
}

TEST_F(tls_cluster, a_node_with_another_nodes_certificate_does_not_start) {
  auto launch = nodes_[0].launch();
  launch.name = "node-4";
  launch.folder = folder_->path() / launch.name;
  launch.seeds = {address(0)};
  launch.control_port = launch.data_port = launch.http_port = 0;
  EXPECT_FALSE(cli::node_process::start(launch));
  std::ifstream file(launch.folder / "node.log");
  const std::string log{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(log, HasSubstr("is that of the node 'node-1', and this is 'node-4'"));
}

/// A cluster whose page transfers are encrypted, because the nodes ask for that and the clients'
/// options leave it to them.
class tls_cluster_full : public tls_cluster {
protected:
  void SetUp() override {
    prototype_.flags.insert(prototype_.flags.end(), {"--tls-data", "full"});
    tls_cluster::SetUp();
  }
};

TEST_F(tls_cluster_full, pages_between_hosts_are_right) {
  auto first = member(0), second = member(1);
  ASSERT_TRUE(first && second);
  expect_pages_to_pass(*first, *second);
  EXPECT_THAT(log_of(0), HasSubstr("the bytes of pages travel inside TLS"));
}

TEST_F(tls_cluster, misses_nothing_while_certificates_are_replaced_under_load) {
  auto writer = member(0);
  ASSERT_TRUE(writer);
  put(*writer, 0, 40);
  std::atomic<bool> over{false};
  std::atomic<std::uint32_t> missed{0}, got{0};
  std::thread reading([&] {
    auto reader = member(1);
    for (std::uint32_t id = 0; reader && !over; id = (id + 1) % 40) {
      const bool hit = get(*reader, id).result.status == page_status::hit;
      (hit ? got : missed).fetch_add(1);
      if (id == 0) // Connects anew now and then, because only new connections are judged by the
                   // replaced files.
        reader = member(1);
    }
  });
  const auto each_node = [this](const auto& does) {
    for (auto& node : nodes_) {
      const auto next =
          ca_.authority().issue(net::tls_role::node, node.launch().name, ca_.folder() + "/next");
      ASSERT_TRUE(next);
      does(node.launch().tls, *next);
      node.process().signal(SIGHUP);
    }
  };
  const auto wait_for_reads = [&] {
    const auto goal = got + 60;
    EXPECT_TRUE(within(milliseconds(20'000), [&] { return got >= goal; }));
  };
  wait_for_reads();
  // While certificates are replaced, one file may be missing for a moment, and then the files may
  // not fit together.
  each_node([](const tls_paths& files, const auto&) { fs::remove(files.key); });
  wait_for_reads();
  each_node([](const tls_paths& files, const auto& next) {
    fs::copy_file(next.certificate, files.certificate, fs::copy_options::overwrite_existing);
    fs::copy_file(next.key, fs::path(files.key).concat(".next"));
  });
  wait_for_reads();
  each_node([](const tls_paths& files, const auto&) {
    fs::rename(fs::path(files.key).concat(".next"), files.key);
  });
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_TRUE(within(milliseconds(10'000), [&] { return count_of(log_of(i), " again") > 0; }))
        << log_of(i);
  wait_for_reads();
  over = true;
  reading.join();
  EXPECT_EQ(missed, 0u);
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_THAT(log_of(i), HasSubstr("that were read before stay in use"));
}

} // namespace
} // namespace peercache::real::tls_cluster_test
