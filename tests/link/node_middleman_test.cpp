#include "link/node_middleman.hpp"

#include "common/log.hpp"

#include "link/system_config.hpp"

#include <arpa/inet.h>
#include <caf/all.hpp>
#include <caf/io/all.hpp>
#include <caf/io/basp_broker.hpp>
#include <fcntl.h>
#include <functional>
#include <future>
#include <gtest/gtest.h>
#include <memory>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace peercache::link {
namespace {

/// An actor system that publishes an actor at a port, as a node publishes its gateway.
class node_middleman_test : public testing::Test {
protected:
  void SetUp() override {
    auto published = system.middleman().publish(served, 0, "127.0.0.1");
    ASSERT_TRUE(published) << system.render(published.error());
    port = *published;
  }
  void TearDown() override {
    caf::anon_send_exit(served, caf::exit_reason::user_shutdown);
    served = nullptr;
    leave_actor_system();
  }

  /// Returns the number of peers in the tables of CAF's broker, which the broker's own thread
  /// reads.
  std::size_t peers_remembered() {
    auto& middleman = system.middleman();
    const auto basp = middleman.named_broker<caf::io::basp_broker>(caf::atom("BASP"));
    auto* broker = dynamic_cast<caf::io::basp_broker*>(caf::actor_cast<caf::abstract_actor*>(basp));
    if (broker == nullptr)
      return ~std::size_t{0};
    auto asked = std::make_shared<std::promise<std::size_t>>();
    auto answer = asked->get_future();
    middleman.run_later([asked, broker] { asked->set_value(broker->spawn_servers.size()); });
    return answer.get();
  }

  /// Connects to the port and disconnects again, as a command of the CLI does. @param meanwhile
  /// called while the connection is open
  void connect_and_leave(const std::function<void()>& meanwhile = [] {}) {
    std::thread{[port = port, &meanwhile] {
      system_config of_a_client{1};
      caf::actor_system client{of_a_client};
      auto remote = client.middleman().remote_actor("127.0.0.1", port);
      EXPECT_TRUE(remote) << client.render(remote.error());
      caf::scoped_actor self{client};
      if (remote)
        self->request(*remote, std::chrono::seconds(10), 1)
            .receive([](int) {},
                     [&](const caf::error& why) { ADD_FAILURE() << client.render(why); });
      meanwhile();
      leave_actor_system();
    }}.join();
  }

  /// Returns a plain connection to the port, on which the test may send any bytes.
  int raw_connection() const {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return fd;
  }
  /// Reads until the other side closes the connection. Returns false when it does not within 10 s.
  static bool is_closed(int fd) {
    for (char bytes[4096];;) {
      pollfd news{fd, POLLIN, 0};
      if (::poll(&news, 1, 10'000) != 1)
        return false;
      if (::recv(fd, bytes, sizeof bytes, 0) <= 0)
        return true;
    }
  }

  template <class Condition>
  static bool within(std::chrono::milliseconds most, Condition&& holds) {
    for (const auto end = std::chrono::steady_clock::now() + most; !holds();
         std::this_thread::yield())
      if (std::chrono::steady_clock::now() > end)
        return false;
    return true;
  }

  system_config config{1};
  caf::actor_system system{config};
  // The lambda takes an argument, because without one CAF 0.17 binds a reference to a null pointer.
  caf::actor served = system.spawn(
      [](int more) { return caf::behavior{[more](int asked) { return asked + more; }}; }, 0);
  std::uint16_t port = 0;
};

TEST_F(node_middleman_test, nothing_is_kept_of_a_peer_that_left) {
  for (int i = 0; i < 8; ++i)
    connect_and_leave([this] { EXPECT_EQ(peers_remembered(), 1u) << "while it is connected"; });
  EXPECT_TRUE(within(std::chrono::seconds(10), [&] { return peers_remembered() == 0; }))
      << peers_remembered() << " are kept";
}

TEST_F(node_middleman_test, who_says_nothing_or_only_a_part_of_a_greeting_is_cut_off) {
  const int mute = raw_connection();
  const int slow = raw_connection();
  EXPECT_EQ(::send(slow, "\0\0\0", 3, MSG_NOSIGNAL), 3);
  EXPECT_TRUE(is_closed(mute));
  EXPECT_TRUE(is_closed(slow));
  ::close(mute);
  ::close(slow);
  connect_and_leave();
}

/// Returns the peak of this process's resident memory in KiB.
long peak_kib() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  return used.ru_maxrss;
}

TEST_F(node_middleman_test, a_length_that_is_only_announced_costs_no_memory) {
  const auto before = peak_kib();
  for (const std::uint32_t announced : {1u << 30, 0xFFFFFFFFu}) {
    const int liar = raw_connection();
    std::string header(caf::io::basp::header_size, '\0');
    header[0] = 1; // BASP's operation client_handshake.
    for (std::size_t i = 0; i < 4; ++i)
      header[4 + i] =
          static_cast<char>(announced >> (24 - 8 * i)); // Big endian, as CAF writes numbers.
    EXPECT_EQ(::send(liar, header.data(), header.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(header.size()));
    EXPECT_TRUE(is_closed(liar));
    ::close(liar);
  }
  EXPECT_LT(peak_kib() - before, 100'000);
  connect_and_leave();
}

/// While it lives, uses up all file descriptors of this process but a few.
class few_descriptors {
public:
  few_descriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const int next = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    auto low = before_;
    low.rlim_cur = static_cast<rlim_t>(next);
    ::setrlimit(RLIMIT_NOFILE, &low);
    ::close(next);
    // Uses up numbers below the limit that may still be free.
    for (int fd; (fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;)
      filled_.push_back(fd);
  }
  ~few_descriptors() {
    for (const int fd : filled_)
      ::close(fd);
    ::setrlimit(RLIMIT_NOFILE, &before_);
  }

private:
  rlimit before_{};
  std::vector<int> filled_;
};

TEST_F(node_middleman_test, without_descriptors_a_connection_is_turned_away_and_later_ones_served) {
  const int caller = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_GE(caller, 0);
  // UBSan opens a pipe to look at the type of each object that it has not seen before, so it must
  // see the doorman's type, the logger's and those of the broker's handlers now. The broker closes
  // a mute connection at a beat, and has sent a heartbeat by then.
  connect_and_leave();
  const int mute = raw_connection();
  EXPECT_TRUE(is_closed(mute));
  ::close(mute);
  log::warn("the next warning is about descriptors");
  {
    const few_descriptors none_left;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(::connect(caller, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    pollfd ended{caller, POLLIN, 0};
    EXPECT_EQ(::poll(&ended, 1, 10'000), 1)
        << "it waits while the process asks the kernel for ever";
    char byte;
    EXPECT_LE(::recv(caller, &byte, 1, MSG_DONTWAIT), 0) << "served without a descriptor?";
  }
  ::close(caller);
  connect_and_leave();
}

} // namespace
} // namespace peercache::link
