// Tests of which peers a node under TLS lets in: each kind of stranger asks at each port, and
// another user at the Unix socket.
#include "client/admin_client.hpp"
#include "link/member_question.hpp"
#include "link/protocol/gateway.hpp"
#include "local_ring.hpp"
#include "net/frame_channel.hpp"
#include "net/host_socket.hpp"
#include "net/socket.hpp"
#include "rdma/tcp/tcp_protocol.hpp"
#include "tests/net/tls_stranger.hpp"
#include "tests/support/certificates.hpp"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <iterator>
#include <optional>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

namespace peercache::real::members_only_test {
namespace {

using testing::HasSubstr;

/// Time within which a node must refuse a peer that it does not let in.
constexpr milliseconds refused_within{2000};

/// A port of a node, and the bytes that a peer sends there to get an answer.
struct asked_port {
  std::string name;
  std::uint16_t port = 0;
  std::string words;
};

/// Outcome of a connection to a port.
struct outcome {
  std::string heard; ///< Bytes that came inside TLS.
  /// Bytes that went to the port, and came from it, as somebody on the way sees them.
  std::string sent, received;
  bool over = false; ///< Whether the other side has ended the connection.
  clock::duration took{};
};

/// Moves bytes that have arrived at one socket to another socket. Returns false when `from` has
/// ended.
bool relay(int from, int to, std::string& seen) {
  char bytes[16384];
  for (;;) {
    const auto got = ::recv(from, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got <= 0)
      return got < 0 && (errno == EAGAIN || errno == ENOTCONN);
    seen.append(bytes, static_cast<std::size_t>(got));
    (void)::send(to, bytes, static_cast<std::size_t>(got), MSG_NOSIGNAL);
  }
}

/// Asks a port over TLS, as the holder of these files (null: without a certificate), until it
/// answers or ends.
outcome ask(const asked_port& at, const net::tls_files* shown) {
  outcome told;
  const auto begin = clock::now();
  const auto socket = net::start_connect("127.0.0.1", at.port, {});
  int ends[2];
  EXPECT_TRUE(socket);
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  const net::unique_fd near(ends[0]), far(ends[1]);
  {
    net::tls_stranger who(near.get(), shown);
    for (bool said = false; told.heard.empty() && !told.over && told.took < 3 * refused_within;) {
      who.shake_hands();
      said = said || who.say(at.words.data(), static_cast<int>(at.words.size()));
      told.heard += who.hears_some(); // The read also takes the alert of a refusal.
      (void)relay(far.get(), socket->get(), told.sent);
      pollfd news{socket->get(), POLLIN, 0};
      ::poll(&news, 1, 5);
      told.over = !relay(socket->get(), far.get(), told.received);
      told.took = clock::now() - begin;
    }
    told.heard += who.hears_some();
  }
  return told;
}

/// Sends these bytes to a port without TLS. In the outcome, `heard` has the bytes that come back.
outcome say(std::uint16_t port, const std::string& words) {
  outcome told;
  const auto begin = clock::now();
  const auto socket = net::start_connect("127.0.0.1", port, {});
  EXPECT_TRUE(socket);
  pollfd ready{socket->get(), POLLOUT, 0};
  EXPECT_EQ(::poll(&ready, 1, 5000), 1);
  (void)::send(socket->get(), words.data(), words.size(), MSG_NOSIGNAL);
  while (!told.over && told.took < 3 * refused_within) {
    pollfd news{socket->get(), POLLIN, 0};
    ::poll(&news, 1, 5);
    char bytes[4096];
    const auto got = ::recv(socket->get(), bytes, sizeof bytes, MSG_DONTWAIT);
    told.over = got == 0 || (got < 0 && errno != EAGAIN);
    told.heard.append(bytes, static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    told.took = clock::now() - begin;
  }
  return told;
}

class members_only : public local_ring {
protected:
  void SetUp() override {
    std::signal(SIGPIPE, SIG_IGN); // OpenSSL's own sockets raise SIGPIPE.
    // The nodes believe the CA of another cluster, too, so that only its name is wrong.
    const auto both = ca.folder() + "/both.crt";
    std::ofstream(both) << std::ifstream(ca.authority().certificate()).rdbuf()
                        << std::ifstream(elsewhere.authority().certificate()).rdbuf();
    certificate_of_ = [this, both](const std::string& name) -> result<tls_paths> {
      auto files = ca.node(name);
      files.authority = both;
      return tls_paths(files);
    };
    prototype_.cluster = ca.authority().cluster();
    // The nodes have a new folder for their sockets, because a test changes the folder's mode, and
    // the default one may have sockets of real nodes of this host.
    std::string name = "/tmp/peercache-members-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    outer_ = name;
    ASSERT_EQ(::chmod(outer_.c_str(), 0711), 0);
    prototype_.flags = {"--net-socket-folder", outer_ + "/sockets"};
    ::setenv(net::host_socket_variable, (outer_ + "/sockets").c_str(), 1);
    local_ring::SetUp();
    if (HasFatalFailure())
      return;
    const auto admin = client::admin_client::connect("127.0.0.1", node(0).ports().control_port,
                                                     cluster(), milliseconds(5000), engine);
    ASSERT_TRUE(admin) << admin.error().message;
    const auto view = (*admin)->view();
    ASSERT_TRUE(view);
    const auto* self = view->find_name(node(0).launch().name);
    ASSERT_NE(self, nullptr);
    rdma::hello hello;
    hello.extent = rdma::tls_extent::handshake;
    auto greeting = net::frames::greeting(link::wire_version, cluster(), self->inc,
                                          link::member_question_magic);
    net::frames::append_frame(greeting,
                              link::encode_question({1, link::member_question::view, {}}));
    ports = {{"control", node(0).ports().control_port, std::string(64, '\1')},
             {"look-up", self->lookup_port, greeting},
             {"data", node(0).ports().data_port,
              std::string(reinterpret_cast<const char*>(&hello), sizeof hello)},
             {"HTTP", node(0).ports().http_port, "GET /metrics HTTP/1.1\r\nHost: node-1\r\n\r\n"}};
  }

  void TearDown() override {
    local_ring::TearDown();
    ::unsetenv(net::host_socket_variable);
    std::filesystem::remove_all(outer_);
  }

  std::string log() const {
    std::ifstream file(nodes_[0].launch().folder / "node.log");
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::size_t lines_with(const std::string& part) const {
    const auto text = log();
    std::size_t count = 0;
    for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
      ++count;
    return count;
  }
  /// Whether the port let the asker in. The HTTP port, which answers health checks of anybody,
  /// refuses with the status 403.
  static bool is_let_in(const outcome& told) {
    return !told.heard.empty() && told.heard.find(" 403 ") == std::string::npos;
  }
  void expect_refused(const asked_port& at, const net::tls_files* shown, const char* who) {
    SCOPED_TRACE(at.name + " port, " + who);
    const auto told = ask(at, shown);
    EXPECT_FALSE(is_let_in(told)) << told.heard;
    EXPECT_TRUE(told.over || !told.heard.empty()) << "neither answered nor ended";
    EXPECT_LT(told.took, refused_within);
  }

  std::string outer_; ///< The folder that contains the folder of the sockets.
  const certificates ca{"only-" + std::to_string(::getpid())};
  const certificates elsewhere{"elsewhere"};
  const net::tls_files engine = ca.client("engine");
  std::vector<asked_port> ports;
};

TEST_F(members_only, each_port_takes_its_members_and_no_stranger) {
  const certificates same_name(cluster());
  const auto of_other_ca = same_name.node("node-1"), of_other_cluster = elsewhere.node("node-1");
  const auto expired = ca.issue(net::tls_role::node, "late", std::chrono::seconds(-60));
  const auto operating = ca.issue(net::tls_role::operating, "anna");
  const auto another_node = ca.node("node-2");
  for (const auto& at : ports) {
    for (const auto* member : {&another_node, &operating, &engine})
      if (member != &engine || at.name != "control") {
        EXPECT_TRUE(is_let_in(ask(at, member))) << at.name << ": " << member->certificate;
      }
    expect_refused(at, nullptr, "no certificate");
    expect_refused(at, &of_other_ca, "another CA");
    expect_refused(at, &expired, "expired");
    expect_refused(at, &of_other_cluster, "another cluster");
  }
  expect_refused(ports[0], &engine, "a client's certificate");
  EXPECT_EQ(lines_with("tls: refused a connection from 127.0.0.1"), 1u) << log();
  EXPECT_EQ(lines_with("HTTP: refused 127.0.0.1"), 1u) << log();
}

/// The bytes with which a client begins a handshake of TLS.
std::string hello_of_tls() {
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  const net::unique_fd near(ends[0]), far(ends[1]);
  net::tls_stranger(near.get(), nullptr).shake_hands();
  char bytes[4096];
  const auto got = ::recv(far.get(), bytes, sizeof bytes, MSG_DONTWAIT);
  return {bytes, static_cast<std::size_t>(std::max<ssize_t>(got, 0))};
}

/// A connection to a port, whose peer sends a part of a handshake of TLS and then no more.
struct stalled {
  const asked_port* at;
  std::string words; ///< What the peer sends; the peer never goes on afterwards.
  bool drips;        ///< Whether the peer sends a byte at a time.
  net::unique_fd socket{};
  clock::time_point begin{};
  std::size_t sent = 0, heard = 0;
  bool over = false; ///< Whether the port has ended the connection, after `took`.
  clock::duration took{};

  void move_on() {
    if (over)
      return;
    took = clock::now() - begin;
    const auto count = drips ? std::min<std::size_t>(1, words.size() - sent) : words.size() - sent;
    const auto gone = ::send(socket.get(), words.data() + sent, count, MSG_NOSIGNAL | MSG_DONTWAIT);
    sent += static_cast<std::size_t>(std::max<ssize_t>(gone, 0));
    char bytes[4096];
    const auto got = ::recv(socket.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    heard += static_cast<std::size_t>(std::max<ssize_t>(got, 0));
    over = got == 0 || (got < 0 && errno != EAGAIN && errno != ENOTCONN);
  }
};

TEST_F(members_only, a_handshake_that_stalls_is_ended_within_the_limit_at_each_port) {
  const auto hello = hello_of_tls();
  ASSERT_GT(hello.size(), 200u);
  std::vector<stalled> all;
  for (const auto& at : ports) {
    all.push_back({&at, "", false});
    all.push_back({&at, hello.substr(0, hello.size() / 2), false});
    all.push_back({&at, hello.substr(0, hello.size() - 1), true});
    all.push_back({&at, hello, false}); // The node's answer is not answered.
  }
  for (auto& each : all) {
    auto socket = net::start_connect("127.0.0.1", each.at->port, {});
    ASSERT_TRUE(socket);
    each.socket = std::move(*socket);
    each.begin = clock::now();
  }
  const auto all_over = [&all] {
    for (auto& each : all)
      each.move_on();
    return std::all_of(all.begin(), all.end(), [](const auto& each) { return each.over; });
  };
  within(3 * refused_within, all_over);
  for (const auto& each : all) {
    SCOPED_TRACE(each.at->name + " port, " + std::to_string(each.sent) + " bytes" +
                 (each.drips ? " one by one" : ""));
    EXPECT_TRUE(each.over);
    EXPECT_LT(each.took, refused_within + milliseconds(1000))
        << "clocks are looked at now and then";
    EXPECT_EQ(each.heard != 0, each.words.size() == hello.size());
  }
  const auto operating = ca.issue(net::tls_role::operating, "anna");
  for (const auto& at : ports)
    EXPECT_TRUE(is_let_in(ask(at, &operating))) << at.name;
}

TEST_F(members_only, what_a_member_has_said_is_worth_nothing_when_it_is_said_again) {
  const auto operating = ca.issue(net::tls_role::operating, "anna");
  for (const auto& at : ports) {
    SCOPED_TRACE(at.name);
    const auto member = ask(at, &operating);
    ASSERT_TRUE(is_let_in(member));
    ASSERT_GT(member.sent.size(), 1000u) << "hello, certificate and words";
    const auto again = say(at.port, member.sent);
    EXPECT_TRUE(again.over);
    EXPECT_LT(again.took, refused_within);
    // The node's own hello and certificate, which anybody may have, and an alert. The signature of
    // a handshake is some bytes longer or shorter than that of another one.
    constexpr std::size_t signature_varies = 8;
    EXPECT_LE(again.heard.size(), ask(at, nullptr).received.size() + signature_varies);
    const auto plain = say(at.port, at.words);
    EXPECT_TRUE(plain.over);
    EXPECT_LT(plain.took, refused_within);
    EXPECT_LT(plain.heard.size(), 16u) << "an alert of TLS, and no more";
  }
  EXPECT_EQ(lines_with("tls: refused a connection from 127.0.0.1"), 1u) << log();
}

/// Connects to the node's Unix socket from a process of the user `user`; the file modes must allow
/// that. Returns whether the node sent anything before it hung up; nothing when it did not hang up.
std::optional<bool> hears_as(uid_t user, const std::string& folder, std::uint16_t port) {
  const auto child = ::fork();
  if (child == 0) {
    ::setenv(net::host_socket_variable, folder.c_str(), 1);
    if (::setgid(user) != 0 || ::setuid(user) != 0)
      ::_exit(10);
    const auto socket = net::host_sockets().connect("127.0.0.1", port);
    pollfd news{socket.get(), POLLIN, 0};
    char byte;
    const auto got = socket && ::poll(&news, 1, int(refused_within.count())) == 1
                         ? ::read(socket.get(), &byte, 1)
                         : -1;
    ::_exit(got > 0 ? 1 : got == 0 ? 2 : 3);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) < 10) << status;
  if (WEXITSTATUS(status) == 3)
    return std::nullopt;
  return WEXITSTATUS(status) == 1;
}

TEST_F(members_only, another_user_hears_nothing_at_the_unix_socket_and_is_told_of_once) {
  if (::geteuid() != 0)
    GTEST_SKIP() << "only root can become another user";
  const std::string before = "clients of this host connect at ";
  const auto text = log();
  const auto at = text.find(before);
  ASSERT_NE(at, std::string::npos) << text;
  const std::filesystem::path socket =
      text.substr(at + before.size(), text.find('\n', at) - at - before.size());
  const auto folder = socket.parent_path();
  const auto port = node(0).ports().control_port;
  struct stat as_it_was {};
  ASSERT_EQ(::stat(folder.c_str(), &as_it_was), 0);
  EXPECT_EQ(as_it_was.st_mode & 07077, 0u) << "the folder is open";
  ASSERT_EQ(::chmod(folder.c_str(), 0711), 0);
  EXPECT_EQ(hears_as(65534, folder, port), std::nullopt) << "the file's mode alone keeps it out";
  ASSERT_EQ(::chmod(socket.c_str(), 0666), 0);
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(hears_as(65534, folder, port), false);
  EXPECT_EQ(hears_as(0, folder, port), true) << "else nobody would be answered";
  EXPECT_EQ(lines_with("refused a process at the Unix socket: it is of the user 65534"), 1u)
      << log();
}

} // namespace
} // namespace peercache::real::members_only_test
