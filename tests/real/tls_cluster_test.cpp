// Three nodes under TLS, and who may talk to them.
#include "local_ring.hpp"
#include "net/socket.hpp"
#include "tests/support/certificates.hpp"

#include <atomic>
#include <csignal>
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
    prototype_.tls = files_;
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
  std::string log_of(std::size_t index) {
    std::ifstream file(nodes_[index].launch().folder / "node.log");
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const certificates ca_{"tls-" + std::to_string(::getpid())};
  const net::tls_files files_ = ca_.node("node");
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
  put(*first, 0, 40);
  for (std::uint32_t id = 0; id < 40; ++id) {
    const auto read = get(*second, id);
    EXPECT_EQ(to_string(read.result.status), to_string(page_status::hit));
    EXPECT_EQ(read.check.wrong_bytes, 0u);
  }
  const std::vector<std::string> here{"--node", address(0), "--cluster", cluster()};
  auto words = here;
  words.insert(words.end(), {"--tls-cert", client_files_.certificate, "--tls-key",
                             client_files_.key, "--tls-ca", client_files_.authority, "nodes"});
  const auto told = run_cli(words);
  EXPECT_EQ(told.exit_code, 0) << told.output;
  EXPECT_THAT(told.output, HasSubstr("node-3"));
  words = here;
  words.push_back("ping");
  EXPECT_EQ(run_cli(words).exit_code, 4) << "without a certificate";
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
      if (id == 0) // New connections are judged by the files of their day.
        reader = member(1);
    }
  });
  const auto next = ca_.issue(net::tls_role::node, "next");
  const auto wait_for_reads = [&] {
    const auto goal = got + 60;
    EXPECT_TRUE(within(milliseconds(20'000), [&] { return got >= goal; }));
  };
  wait_for_reads();
  fs::remove(files_.key); // One file is missing for a moment, and the others do not fit.
  for (auto& each : nodes_)
    each.process().signal(SIGHUP);
  wait_for_reads();
  fs::copy_file(next.certificate, files_.certificate, fs::copy_options::overwrite_existing);
  for (auto& each : nodes_)
    each.process().signal(SIGHUP);
  wait_for_reads();
  fs::copy_file(next.key, files_.key);
  for (auto& each : nodes_)
    each.process().signal(SIGHUP);
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
