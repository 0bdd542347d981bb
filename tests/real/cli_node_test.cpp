// Tests of which node the command line asks, and of how long it tries to reach the node.

#include "local_ring.hpp"

#include <arpa/inet.h>
#include <csignal>
#include <fstream>
#include <future>
#include <netinet/in.h>
#include <sys/socket.h>
#include <thread>

namespace peercache::real::cli_node_test {

namespace {

/// A port that answers no SYN, because nobody accepts its connections and its queue is full.
class silent_port {
public:
  silent_port() {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address_;
    EXPECT_EQ(::bind(listener_, generic(), sizeof address_), 0);
    EXPECT_EQ(::listen(listener_, 0), 0);
    EXPECT_EQ(::getsockname(listener_, generic(), &size), 0);
    for (auto& each : fillers_)
      (void)::connect(each, generic(), sizeof address_);
  }
  ~silent_port() {
    ::close(listener_);
    for (auto each : fillers_)
      ::close(each);
  }
  silent_port(const silent_port&) = delete;
  silent_port& operator=(const silent_port&) = delete;

  std::string text() const { return "127.0.0.1:" + std::to_string(ntohs(address_.sin_port)); }

private:
  static int make_socket() { return ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0); }
  sockaddr* generic() { return reinterpret_cast<sockaddr*>(&address_); }

  sockaddr_in address_{};
  int listener_ = make_socket();
  int fillers_[4] = {make_socket(), make_socket(), make_socket(), make_socket()};
};

finished_program ask_with(const std::string& file, std::vector<std::string> words) {
  words.insert(words.begin(), {"/usr/bin/env", "PEERCACHE_CONFIG=" + file,
                               PEERCACHE_CLI_DIR "/peercache", "-o", "json"});
  return run_program(std::move(words));
}

class cli_node : public local_ring {
protected:
  /// Writes a configuration file: the name of the cluster, followed by `text`. Returns the path.
  std::string file_of(const std::string& text) {
    const auto path = (folder_->path() / "node.toml").string();
    std::ofstream(path) << "[cluster]\nname = \"" << cluster() << "\"\n" << text;
    return path;
  }
};

} // namespace

TEST(cli_timeout, is_the_time_for_connecting_too) {
  const silent_port nobody;
  const auto begin = clock::now();
  const auto ping = run_cli({"ping", "-c1", "--node", nobody.text(), "--timeout", "2500ms"});
  EXPECT_EQ(ping.exit_code, 4);
  EXPECT_GE(clock::now() - begin, milliseconds(2400));
}

TEST_F(cli_node, that_was_stopped_for_a_while_is_reached_within_the_timeout) {
  freeze(0);
  auto ping = std::async(std::launch::async, [&] {
    return run_cli(
        {"ping", "-c1", "--cluster", cluster(), "--node", address(0), "--timeout", "20s"});
  });
  EXPECT_EQ(ping.wait_for(milliseconds(1500)), std::future_status::timeout) << "it waits";
  node(0).process().signal(SIGCONT);
  EXPECT_EQ(ping.get().exit_code, 0);
}

TEST_F(cli_node, to_ask_is_that_of_the_configuration) {
  const auto port = std::to_string(node(1).ports().control_port);
  for (const std::string& bind : {std::string("127.0.0.1"), std::string("0.0.0.0")}) {
    const auto file = file_of("[net]\nbind = \"" + bind + "\"\ncontrol_port = " + port + "\n");
    const auto ping = ask_with(file, {"ping", "-c1"});
    EXPECT_EQ(ping.exit_code, 0) << bind << ping.output;
    EXPECT_EQ(ping.json()["node"], "node-2");
  }
  const auto advertised = file_of("[net]\nbind = \"0.0.0.0\"\nadvertise = \"127.0.0.1\"\n"
                                  "control_port = " +
                                  port + "\n");
  EXPECT_EQ(ask_with(advertised, {"ping", "-c1"}).json()["node"], "node-2");
}

TEST_F(cli_node, to_ask_is_that_of_clients_where_it_is_set) {
  const auto own = std::to_string(node(1).ports().control_port);
  const auto of_clients = std::to_string(node(2).ports().control_port);
  const auto file =
      file_of("[net]\ncontrol_port = " + own + "\n[client]\nnode_port = " + of_clients + "\n");
  EXPECT_EQ(ask_with(file, {"ping", "-c1"}).json()["node"], "node-3");
}

TEST_F(cli_node, that_does_not_answer_is_to_be_started_with_its_configuration) {
  const auto file = file_of("[net]\ncontrol_port = 1\n");
  const auto said = [&](std::vector<std::string> words) {
    const auto ping = ask_with(file, std::move(words));
    EXPECT_EQ(ping.exit_code, 4);
    return ping.json()["error"]["message"].get<std::string>();
  };
  const auto own = said({"ping", "-c1"});
  EXPECT_NE(own.find("127.0.0.1:1: "), std::string::npos) << own;
  EXPECT_NE(own.find("peercache-node --config " + file), std::string::npos) << own;
  EXPECT_EQ(own.find("--dev"), std::string::npos) << own;
  const auto other = said({"ping", "-c1", "--node", "127.0.0.1:2"});
  EXPECT_EQ(other.find("--config"), std::string::npos) << other;
  EXPECT_EQ(other.find("--dev"), std::string::npos) << other;
}

} // namespace peercache::real::cli_node_test
