// Tests of the look-up port under TLS, at the bound of all connections, and without a pool.

#include "net/tls_handshakes.hpp"
#include "storage/page_holds.hpp"
#include "tests/actors/serving/lookup_port.hpp"
#include "tests/support/certificates.hpp"

#include <algorithm>
#include <thread>

namespace peercache::actors::lookup_ports {
namespace {

using storage::hold_outcome;

/// A gateway that refuses to hold any page.
caf::behavior run_refusing_gateway(caf::event_based_actor*, int) {
  return {[](hold_atom, const std::string&, std::uint32_t, std::uint32_t, from_here) {
    return std::string(1, static_cast<char>(hold_outcome::refused));
  }};
}

TEST_F(lookup_server_test, holds_of_a_port_without_a_pool_are_asked_of_the_node) {
  const auto node = system.spawn(run_refusing_gateway, 0);
  serve(directory, caf::actor_cast<gateway_actor>(node));
  const auto client = connect_and_greet();
  const std::string page(sizeof(link::used_page), '\1');
  ask(client.get(), 5, member_question::hold, link::hold_body({7, 1000, page}));
  const std::string refused(1, static_cast<char>(hold_outcome::refused));
  EXPECT_EQ(answer(client.get()), (std::pair<std::uint32_t, std::string>{5, refused}));
  caf::anon_send_exit(node, caf::exit_reason::user_shutdown);
}

TEST_F(lookup_server_test, together_connections_hold_no_more_than_their_bound) {
  const auto late = system.spawn(run_late_directory, std::make_shared<waiting_look_ups>());
  shard = nullptr; // Each look-up waits for the directory, which does not answer.
  serve(caf::actor_cast<directory_actor>(late), caf::actor_cast<gateway_actor>(gateway));
  const auto small = connect_and_greet();
  const std::string keys(limits::batch_pages_max * directory::wire::key_bytes, 'k');
  std::string asked = greeting();
  frames::append_frame(asked, keys);
  frames::append_frame(asked, keys);
  const std::size_t held = 2 * limits::batch_pages_max *
                           (directory::wire::key_bytes + 1 +
                            limits::locations_per_key_max * directory::wire::location_bytes);
  const auto most = lookup_connections::total_bytes_max / held;
  std::vector<net::unique_fd> all;
  for (std::size_t i = 0; i < most + 8; ++i) {
    all.push_back(connect(65536));
    EXPECT_EQ(send_without_reading(all.back().get(), asked), asked.size());
  }
  const auto ended = [&] {
    return std::count_if(all.begin(), all.end(), [](const auto& each) {
      pollfd closed{each.get(), POLLRDHUP, 0};
      return ::poll(&closed, 1, 0) == 1;
    });
  };
  for (const auto until = steady_clock::now() + std::chrono::seconds(30);
       ended() < 8 && steady_clock::now() < until;)
    std::this_thread::yield();
  ask(small.get(), 1, member_question::hello, ""); // Answered after all that came before.
  EXPECT_TRUE(answer(small.get())) << "who holds little is not cut off";
  EXPECT_GE(ended(), 8);
  EXPECT_LE(ended(), 9);
  serving.reset();
  caf::anon_send_exit(late, caf::exit_reason::user_shutdown);
}

/// A look-up server under TLS.
class tls_lookup_server_test : public lookup_server_test {
protected:
  void SetUp() override {
    auto made = net::tls_handshakes::create(context_of(ca.node()));
    ASSERT_TRUE(made);
    handshakes = std::move(*made);
    hands = std::thread([this] { handshakes->run(); });
    serving = std::make_unique<served_lookups>(system, "test", inc, directory,
                                               caf::actor_cast<gateway_actor>(gateway), shard,
                                               handshakes.get());
    port = serving->port();
  }
  void TearDown() override {
    serving.reset();
    handshakes->stop();
    hands.join();
  }

  certificates ca{"test"};
  std::unique_ptr<net::tls_handshakes> handshakes;
  std::thread hands;
};

TEST_F(tls_lookup_server_test, questions_and_answers_may_have_many_records) {
  const auto client = context_of(ca.client());
  auto channel = net::frame_channel::open("127.0.0.1", port, greeting(), client.get());
  ASSERT_TRUE(channel);
  // A record has 16 KiB at most: a question has some twenty, and its answer some ten.
  constexpr std::size_t keys = 8192;
  for (int i = 0; i < 3; ++i) {
    (*channel)->ask(std::string(keys * directory::wire::key_bytes, 'k'),
                    keys * directory::wire::key_bytes);
    EXPECT_EQ(answer_of(**channel).size(), keys * (1 + sizeof(directory::view_number)));
  }
}

TEST_F(tls_lookup_server_test, a_stranger_gets_no_answer) {
  auto plain = net::frame_channel::open("127.0.0.1", port, greeting());
  ASSERT_TRUE(plain);
  (*plain)->ask(std::string(directory::wire::key_bytes, 'k'), 4096);
  pollfd ready{(*plain)->fd(), POLLOUT, 0};
  ASSERT_EQ(::poll(&ready, 1, 5000), 1);
  (*plain)->advance();
  EXPECT_TRUE(is_closed_by_peer((*plain)->fd()));
  EXPECT_NE((*plain)->advance(), net::frame_channel::state::answered);
}

} // namespace
} // namespace peercache::actors::lookup_ports
