// Tests of messages in CAF's protocol that anybody who reaches a control port can send
// (docs/security.md). They are sent to three nodes while a well-behaved client works. Each test
// sends one kind of message; scripts/attack runs all of them. With PEERCACHE_TEST_GUARDS_OFF=frames
// nodes do not check messages, and break.

#include "attack_ring.hpp"
#include "tests/support/basp_frames.hpp"

#include <array>
#include <cstdlib>
#include <poll.h>
#include <random>

namespace peercache::real::caf_attack_test {

namespace {

using operation = basp_frames::operation;

/// Tests send messages to the actors with the numbers 1 to `actors_max`. All actors of a node have
/// such numbers.
constexpr std::uint64_t actors_max = 60;
constexpr std::uint64_t usual_id = caf::message_id::default_async_value;

class caf_attack : public attack {
protected:
  void SetUp() override {
    if (std::getenv("PEERCACHE_TEST_GUARDS_OFF") != nullptr)
      prototype_.program = PEERCACHE_NODE_SWITCHABLE;
    attack::SetUp();
  }

  static void say_all(const net::unique_fd& to, std::string_view bytes) {
    while (!bytes.empty()) {
      const auto sent = ::send(to.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      pollfd room{to.get(), POLLOUT, 0};
      if (sent < 0 && (errno != EAGAIN || ::poll(&room, 1, 5000) != 1))
        return; // The node has cut the connection off.
      bytes.remove_prefix(sent < 0 ? 0 : static_cast<std::size_t>(sent));
    }
  }
  /// Returns frames of a process that the node under attack does not know.
  basp_frames stranger() {
    caf::node_id::default_data::host_id_type host{};
    host[0] = 1;
    return {system_, caf::make_node_id(++strangers_, host)};
  }
  /// Connects, shakes hands, sends this frame, and leaves the connection open.
  net::unique_fd shake_hands_and_say(const std::string& frame) {
    auto connection = connect_to(control_port());
    say_all(connection, stranger().handshake() + frame);
    return connection;
  }
  /// Sends this message to each actor of the node, each time on a new connection. Returns the
  /// connections.
  sockets say_to_all(const std::string& message, std::uint64_t id = usual_id) {
    sockets all;
    for (std::uint64_t actor = 1; actor <= actors_max; ++actor)
      all.push_back(shake_hands_and_say(stranger().direct(actor, message, id)));
    return all;
  }
  template <class... T>
  std::string message_of(T... values) {
    return stranger().written(caf::make_message(std::move(values)...));
  }

  /// Expects that the node ended these connections. CAF itself closes connections that fall silent,
  /// so the node's log must say that the node did it.
  void expect_refused(const sockets& all) {
    expect_cut_off(all);
    EXPECT_EQ(refusals_told_by(0), 1u) << "one line a minute for each address";
  }

private:
  std::uint32_t strangers_ = 0;
};

TEST_F(caf_attack, exit_messages) {
  for (const auto reason : {caf::exit_reason::kill, caf::exit_reason::user_shutdown})
    expect_refused(say_to_all(message_of(caf::exit_msg{{}, reason})));
}

TEST_F(caf_attack, an_exit_message_of_a_process_that_has_not_shaken_hands) {
  sockets all;
  for (std::uint64_t actor = 1; actor <= actors_max; ++actor) {
    all.push_back(connect_to(control_port()));
    say_all(all.back(),
            stranger().direct(actor, message_of(caf::exit_msg{{}, caf::exit_reason::kill})));
  }
  expect_refused(all);
}

TEST_F(caf_attack, down_messages_and_links) {
  expect_refused(say_to_all(message_of(caf::down_msg{{}, caf::exit_reason::kill})));
  expect_refused(say_to_all(message_of(caf::group_down_msg{})));
  // Links the gateway to an actor of its own node as if that actor were in another process.
  const auto victim = caf::actor_cast<caf::strong_actor_ptr>(gateways_.front());
  expect_refused(say_to_all(message_of(caf::link_atom_v, victim)));
}

TEST_F(caf_attack, empty_messages_of_streams) {
  for (const std::uint64_t category : {2u, 3u})
    expect_refused(say_to_all(message_of(), category << caf::message_id::category_offset));
}

TEST_F(caf_attack, messages_in_messages) {
  expect_refused(say_to_all(basp_frames::nested(100'000)));
}

/// An actor that has no handler for errors ends when it receives an error.
TEST_F(caf_attack, errors_that_answer_nothing) {
  const auto why = message_of(caf::make_error(caf::sec::runtime_error, std::string("why")));
  for (const auto id : {usual_id, usual_id + 1, std::uint64_t{0}})
    expect_refused(say_to_all(why, id));
}

TEST_F(caf_attack, errors_in_errors) {
  std::string deep;
  for (int i = 0; i < 100'000; ++i)
    deep += basp_frames::types("@<>+@error") + '\1' + std::string(8, '\1');
  expect_refused(say_to_all(deep));
}

TEST_F(caf_attack, texts_whose_length_is_only_announced) {
  const auto before = rss_kib();
  for (const auto* type : {"@charbuf", "@u16str", "@u32str", "@strvec", "@new_data_msg"})
    expect_refused(
        say_to_all(basp_frames::types(std::string("@<>+") + type) + basp_frames::length(1u << 28)));
  EXPECT_LT(rss_kib(), before + 32 * 1024);
}

TEST_F(caf_attack, messages_for_actors_of_caf_and_for_others_behind_the_node) {
  sockets all;
  for (const auto name : {caf::atom("SpawnServ"), caf::atom("ConfigServ")}) {
    const auto said = stranger().direct(
        static_cast<std::uint64_t>(name),
        message_of(caf::put_atom_v, std::string("key"), caf::make_message(std::string("value"))),
        usual_id, caf::io::basp::header::named_receiver_flag);
    all.push_back(shake_hands_and_say(said));
  }
  // Forges a message that claims to be routed: from one member to another, by way of the sender.
  const auto nodes = stranger().written(gateways_[2].node(), gateways_[1].node());
  const auto killing = message_of(caf::exit_msg{{}, caf::exit_reason::kill});
  all.push_back(shake_hands_and_say(stranger().frame(
      operation::routed_message, nodes + '\0' + killing, usual_id, gateways_[1].id(), 0, 1)));
  expect_refused(all);
}

TEST_F(caf_attack, the_end_of_another_members_actors_said_by_a_stranger) {
  sockets all;
  for (std::size_t other : {1u, 2u})
    for (std::uint64_t actor = 1; actor <= actors_max; ++actor) {
      const auto payload = stranger().written(gateways_[other].node(), gateways_[0].node(),
                                              caf::make_error(caf::exit_reason::kill));
      all.push_back(
          shake_hands_and_say(stranger().frame(operation::down_message, payload, 0, 0, 0, actor)));
    }
  expect_refused(all);
  EXPECT_EQ(current_view().members.size(), 3u);
}

TEST_F(caf_attack, frames_with_changed_bytes) {
  std::mt19937_64 random(21);
  const std::array<std::string, 4> messages{
      message_of(hello_atom_v, wire_version, cluster(), std::string("me")),
      message_of(caf::make_error(caf::sec::runtime_error, std::string("why"))), message_of(),
      message_of(status_atom_v)};
  for (int i = 0; i < 3000; ++i) {
    auto frame = stranger().direct(1 + random() % actors_max, messages[random() % messages.size()],
                                   usual_id + random() % 3);
    for (auto n = 1 + random() % 4; n > 0; --n)
      frame[random() % frame.size()] = static_cast<char>(random());
    const auto connection = shake_hands_and_say(frame);
    // Waits until the node has answered the handshake, so that it has received the frame, too,
    // before the connection is closed.
    pollfd news{connection.get(), POLLIN, 0};
    ::poll(&news, 1, 1000);
  }
}

TEST_F(caf_attack, half_handshakes) {
  sockets all;
  const auto whole = stranger().handshake();
  for (int i = 0; i < 200; ++i) {
    all.push_back(connect_to(control_port()));
    say_all(all.back(), whole.substr(0, static_cast<std::size_t>(i) % (whole.size() / 2)));
  }
  expect_cut_off(all);
}

TEST_F(caf_attack, random_bytes_after_a_handshake) {
  std::mt19937_64 random(22);
  sockets all;
  for (int i = 0; i < 600; ++i) {
    std::string noise(caf::io::basp::header_size + random() % 300, '\0');
    for (auto& c : noise)
      c = static_cast<char>(random());
    all.push_back(shake_hands_and_say(noise));
  }
  expect_refused(all);
}

/// Three nodes without the guard `frames`, to show what this guard prevents.
class unguarded : public foreign_program {
protected:
  void SetUp() override {
    prototype_.program = PEERCACHE_NODE_SWITCHABLE;
    prototype_.environment = {{"PEERCACHE_TEST_GUARDS_OFF", "frames"}};
    foreign_program::SetUp();
  }
  /// Sends this message to the first node's gateway, and expects that the node's process ends.
  void expect_the_end_by(const std::string& message, std::uint64_t id) {
    caf::node_id::default_data::host_id_type host{1};
    const basp_frames stranger(system_, caf::make_node_id(1, host));
    const auto connected = net::start_connect("127.0.0.1", node(0).ports().control_port, {});
    ASSERT_TRUE(connected);
    const auto bytes = stranger.handshake() + stranger.direct(gateways_.front().id(), message, id);
    std::string_view rest = bytes;
    while (!rest.empty()) {
      pollfd room{connected->get(), POLLOUT, 0};
      ASSERT_EQ(::poll(&room, 1, 5000), 1);
      const auto sent = ::send(connected->get(), rest.data(), rest.size(), MSG_NOSIGNAL);
      ASSERT_GT(sent, 0);
      rest.remove_prefix(static_cast<std::size_t>(sent));
    }
    EXPECT_TRUE(node(0).process().wait(milliseconds(20'000)));
  }
};

TEST_F(unguarded, nodes_end_by_an_empty_message_of_a_stream) {
  expect_the_end_by(std::string(basp_frames::types("@<>")), std::uint64_t{3} << 60);
}

TEST_F(unguarded, nodes_end_by_messages_in_messages) {
  expect_the_end_by(basp_frames::nested(100'000), usual_id);
}

} // namespace

} // namespace peercache::real::caf_attack_test
