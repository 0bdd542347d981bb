#include "link/node_middleman.hpp"
#include "link/scribe.hpp"
#include "link/system_config.hpp"
#include "net/socket.hpp"

#include <atomic>
#include <caf/all.hpp>
#include <caf/io/all.hpp>
#include <chrono>
#include <cstddef>
#include <future>
#include <gtest/gtest.h>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace peercache::link {
namespace {

using rw_state = caf::io::network::rw_state;

/// A plain connection as CAF's multiplexer reads it, and the socket of its peer.
class connection_bytes_test : public testing::Test {
protected:
  connection_bytes_test() {
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets), 0);
  }
  ~connection_bytes_test() override {
    ::close(sockets[0]);
    hang_up();
  }

  void send(std::string_view bytes) const {
    EXPECT_EQ(::write(sockets[1], bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  void hang_up() { ::close(std::exchange(sockets[1], -1)); }
  /// Reads up to `count` bytes once; nothing comes when the connection is over.
  std::string read(std::size_t count) {
    std::string bytes(count, '\0');
    std::size_t got = 0;
    state = subject.read_some(got, sockets[0], bytes.data(), count);
    bytes.resize(got);
    return bytes;
  }
  bool has_more(std::size_t threshold) const {
    return subject.must_read_more(sockets[0], threshold);
  }
  int bytes_at_socket() const {
    int waiting = 0;
    EXPECT_EQ(::ioctl(sockets[0], FIONREAD, &waiting), 0);
    return waiting;
  }

  int sockets[2]{-1, -1};
  connection_bytes subject{std::nullopt};
  rw_state state = rw_state::success;
};

TEST_F(connection_bytes_test, a_message_is_received_at_once_and_handed_out_in_pieces) {
  send("headpayload");
  EXPECT_EQ(read(4), "head");
  EXPECT_EQ(bytes_at_socket(), 0);
  EXPECT_TRUE(has_more(7));
  EXPECT_FALSE(has_more(8));
  EXPECT_EQ(read(7), "payload");
  EXPECT_FALSE(has_more(1));
}

TEST_F(connection_bytes_test, a_socket_that_had_nothing_more_is_asked_again_at_its_next_event) {
  send("one");
  EXPECT_EQ(read(3), "one");
  send("two");
  EXPECT_EQ(read(3), "") << "this ends CAF's loop; an event tells of what came later";
  EXPECT_EQ(state, rw_state::success);
  EXPECT_EQ(read(3), "two");
}

TEST_F(connection_bytes_test, the_end_is_told_behind_the_last_byte) {
  send("last");
  hang_up();
  EXPECT_EQ(read(2), "la");
  EXPECT_EQ(read(2), "st");
  EXPECT_EQ(read(2), "");
  EXPECT_EQ(state, rw_state::success);
  EXPECT_EQ(read(2), "");
  EXPECT_EQ(state, rw_state::failure);
}

TEST_F(connection_bytes_test, bytes_come_in_order_whatever_the_pieces_are) {
  std::string sent;
  for (int i = 0; sent.size() < 20'000; ++i)
    sent += std::to_string(i) + ' ';
  send(sent);
  std::string got;
  std::size_t piece = 1;
  for (std::size_t reads = 0; got.size() < sent.size() && reads < sent.size(); ++reads) {
    got += read(piece);
    piece = piece * 3 % 2003;
  }
  EXPECT_EQ(got, sent);
}

TEST_F(connection_bytes_test, what_was_received_ahead_of_an_end_is_not_handed_out) {
  send("headpayload");
  EXPECT_EQ(read(4), "head");
  subject.discard();
  EXPECT_FALSE(has_more(1));
  EXPECT_EQ(read(1), "");
  EXPECT_EQ(state, rw_state::failure);
}

/// A broker that takes a header's word for how much follows.
caf::behavior run_credulous(caf::io::broker* self, int connected,
                            const std::shared_ptr<std::atomic<int>>& pieces,
                            const std::shared_ptr<std::promise<void>>& ended) {
  auto made = new_scribe(self->system(), net::unique_fd(connected), std::nullopt);
  const auto handle = made->hdl();
  self->add_scribe(std::move(made));
  self->configure_read(handle, caf::io::receive_policy::exactly(4));
  return {[=](const caf::io::new_data_msg&) {
            ++*pieces;
            self->configure_read(handle, caf::io::receive_policy::exactly(1u << 20));
          },
          [=](const caf::io::connection_closed_msg&) {
            ended->set_value();
            self->quit();
          }};
}

TEST(scribe, ends_a_connection_whose_peer_announces_too_much_and_sends_on_at_once) {
  int sockets[2]{-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets), 0);
  const net::unique_fd peer(sockets[1]);
  ASSERT_EQ(::write(peer.get(), "headpayload", 11), 11);
  const auto pieces = std::make_shared<std::atomic<int>>(0);
  const auto ended = std::make_shared<std::promise<void>>();
  auto over = ended->get_future();
  system_config config{1};
  caf::actor_system system{config};
  auto broker = system.middleman().spawn_broker(run_credulous, sockets[0], pieces, ended);
  EXPECT_EQ(over.wait_for(std::chrono::seconds(10)), std::future_status::ready);
  EXPECT_EQ(*pieces, 1) << "the header, and nothing of the rest";
  caf::anon_send_exit(broker, caf::exit_reason::kill);
}

} // namespace
} // namespace peercache::link
