#include "actors/directory_actor.hpp"
#include "actors/link_names.hpp"
#include "actors/lookup_broker.hpp"
#include "link/protocol/gateway.hpp"
#include "link/system_config.hpp"
#include "net/frame_channel.hpp"
#include "net/socket.hpp"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

namespace peercache::actors {
namespace {

namespace frames = net::frames;
using std::chrono::steady_clock;

/// A directory shard behind its broker, and plain sockets to it.
class lookup_broker_test : public testing::Test {
protected:
  system_config config{2};
  caf::actor_system system{config};
  directory_actor directory = system.spawn(run_directory, directory_options{});
  incarnation inc{3, 4};
  std::uint16_t port = 0;
  caf::actor broker;

  void SetUp() override {
    auto doorman = system.middleman().backend().new_tcp_doorman(0, "127.0.0.1", true);
    ASSERT_TRUE(doorman);
    port = (*doorman)->port();
    lookup_broker_options options;
    options.cluster = "test";
    options.inc = inc;
    options.directory = directory;
    options.doorman = std::move(*doorman);
    broker = system.middleman().spawn_broker(run_lookup_broker, std::move(options));
  }

  ~lookup_broker_test() override {
    caf::anon_send_exit(broker, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(directory, caf::exit_reason::user_shutdown);
    system.await_actors_before_shutdown(false);
  }

  std::string greeting() const { return frames::greeting(wire_version, "test", inc); }

  net::unique_fd connect(int receive_buffer_bytes) const {
    net::unique_fd socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    // A small receive buffer makes the answers pile up in the broker's process and not in the
    // kernel.
    ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes,
                 sizeof receive_buffer_bytes);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
    return socket;
  }

  /// Sends without reading. Returns how many bytes went out before the other side closed the
  /// connection or the time had passed.
  static std::size_t send_without_reading(int fd, const std::string& bytes) {
    auto until = steady_clock::now() + std::chrono::seconds(20);
    std::size_t sent = 0;
    while (sent < bytes.size() && steady_clock::now() < until) {
      auto done = ::send(fd, bytes.data() + sent, std::min<std::size_t>(bytes.size() - sent, 65536),
                         MSG_NOSIGNAL | MSG_DONTWAIT);
      if (done >= 0) {
        sent += static_cast<std::size_t>(done);
      } else if (errno == EAGAIN) {
        pollfd writable{fd, POLLOUT, 0};
        ::poll(&writable, 1, 1000);
      } else {
        break;
      }
    }
    return sent;
  }
};

TEST_F(lookup_broker_test, a_peer_that_asks_and_does_not_read_loses_its_connection) {
  auto faulty = connect(4096);
  // Each key is answered with a byte at least, and the kernel's buffers take up to millions of
  // bytes, so the flood asks for two million keys.
  std::string flood = greeting();
  for (int i = 0; i < 4096; ++i)
    frames::append_frame(flood, std::string(512 * directory::wire::key_bytes, 'k'));
  ASSERT_GT(flood.size(), 64u << 20);
  EXPECT_LT(send_without_reading(faulty.get(), flood), flood.size());
  pollfd closed{faulty.get(), POLLRDHUP, 0};
  EXPECT_EQ(::poll(&closed, 1, 5000), 1);
}

/// Whether the other side closes the connection within 10 s.
bool is_closed_by_peer(int fd) {
  pollfd closed{fd, POLLRDHUP, 0};
  return ::poll(&closed, 1, 10'000) == 1;
}

TEST_F(lookup_broker_test, who_does_not_greet_is_cut_off) {
  const auto mute = connect(4096);
  const auto slow = connect(4096);
  ASSERT_EQ(::send(slow.get(), greeting().data(), 5, MSG_NOSIGNAL), 5);
  EXPECT_TRUE(is_closed_by_peer(mute.get()));
  EXPECT_TRUE(is_closed_by_peer(slow.get()));
}

TEST_F(lookup_broker_test, a_client_sees_that_its_idle_connection_was_closed) {
  const auto stranger = frames::greeting(wire_version, "another cluster", inc);
  auto channel = net::frame_channel::open("127.0.0.1", port, stranger);
  ASSERT_TRUE(channel);
  EXPECT_TRUE((*channel)->lives());
  (*channel)->ask("k", 4096);
  pollfd ready{(*channel)->fd(), POLLOUT, 0};
  ASSERT_EQ(::poll(&ready, 1, 5000), 1);
  (*channel)->advance();
  EXPECT_TRUE(is_closed_by_peer((*channel)->fd()));
  EXPECT_FALSE((*channel)->lives());
}

TEST_F(lookup_broker_test, a_peer_that_does_not_read_holds_up_no_other) {
  auto faulty = connect(4096);
  std::string flood = greeting();
  for (int i = 0; i < 64; ++i)
    frames::append_frame(flood, std::string(512 * directory::wire::key_bytes, 'k'));
  send_without_reading(faulty.get(), flood);
  auto channel = net::frame_channel::open("127.0.0.1", port, greeting());
  ASSERT_TRUE(channel);
  (*channel)->ask(std::string(8192 * directory::wire::key_bytes, 'k'), 4096);
  auto until = steady_clock::now() + std::chrono::seconds(5);
  auto state = (*channel)->advance();
  while (state == net::frame_channel::state::asking && steady_clock::now() < until) {
    pollfd ready{(*channel)->fd(), (*channel)->events(), 0};
    ::poll(&ready, 1, 1000);
    state = (*channel)->advance();
  }
  ASSERT_EQ(state, net::frame_channel::state::answered);
  // The shard has no view yet, so it says of each key that another node owns it.
  EXPECT_EQ((*channel)->answer().size(), 8192u * (1 + sizeof(directory::view_number)));
}

} // namespace
} // namespace peercache::actors
