#include "link/node_middleman.hpp"

#include "common/log.hpp"
#include "tests/link/published_actor.hpp"

#include <cstddef>
#include <cstdint>
#include <fcntl.h>
#include <functional>
#include <poll.h>
#include <string>
#include <sys/resource.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace peercache::link {
namespace {

class node_middleman_test : public published_actor {
protected:
  /// Returns the number of peers in the tables of CAF's broker.
  std::size_t peers_remembered() {
    return ask_broker([](caf::io::basp_broker& broker) { return broker.spawn_servers.size(); });
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
};

TEST_F(node_middleman_test, nothing_is_kept_of_a_peer_that_left) {
  for (int i = 0; i < 8; ++i)
    connect_and_leave([this] { EXPECT_EQ(peers_remembered(), 1u) << "while it is connected"; });
  EXPECT_TRUE(within(std::chrono::seconds(10), [&] { return peers_remembered() == 0; }))
      << peers_remembered() << " are kept";
}

TEST_F(node_middleman_test, who_says_nothing_or_only_a_part_of_a_greeting_is_cut_off) {
  const auto mute = raw_connection();
  const auto slow = raw_connection();
  send(slow, std::string(3, '\0'));
  EXPECT_TRUE(is_closed(mute));
  EXPECT_TRUE(is_closed(slow));
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
    const auto liar = raw_connection();
    std::string header(caf::io::basp::header_size, '\0');
    header[0] = 1; // BASP's operation client_handshake.
    for (std::size_t i = 0; i < 4; ++i)
      header[4 + i] =
          static_cast<char>(announced >> (24 - 8 * i)); // Big endian, as CAF writes numbers.
    send(liar, header);
    EXPECT_TRUE(is_closed(liar));
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
  EXPECT_TRUE(is_closed(raw_connection()));
  log::warn("the next warning is about descriptors");
  {
    const few_descriptors none_left;
    const auto to = address();
    ASSERT_EQ(::connect(caller, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
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
