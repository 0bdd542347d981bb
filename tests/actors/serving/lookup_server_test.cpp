#include "tests/actors/serving/lookup_port.hpp"

namespace peercache::actors::lookup_ports {
namespace {

TEST_F(lookup_server_test, a_peer_that_asks_and_does_not_read_loses_its_connection) {
  auto faulty = connect(4096);
  // The server answers each key with a byte at least, and the kernel's buffers take up to some
  // million bytes, so the flood asks for two million keys.
  std::string flood = greeting();
  for (int i = 0; i < 4096; ++i)
    frames::append_frame(flood, std::string(512 * directory::wire::key_bytes, 'k'));
  ASSERT_GT(flood.size(), 64u << 20);
  EXPECT_LT(send_without_reading(faulty.get(), flood), flood.size());
  pollfd closed{faulty.get(), POLLRDHUP, 0};
  EXPECT_EQ(::poll(&closed, 1, 5000), 1);
}

TEST_F(lookup_server_test, who_does_not_greet_is_cut_off) {
  const auto mute = connect(4096);
  const auto slow = connect(4096);
  ASSERT_EQ(::send(slow.get(), greeting().data(), 5, MSG_NOSIGNAL), 5);
  EXPECT_TRUE(is_closed_by_peer(mute.get()));
  EXPECT_TRUE(is_closed_by_peer(slow.get()));
}

TEST_F(lookup_server_test, a_question_that_takes_long_holds_up_no_other_on_its_connection) {
  const auto client = connect_and_greet();
  ask(client.get(), 5, member_question::remove, std::string(directory::wire::key_bytes, 'k'));
  ask(client.get(), 6, member_question::hello, "");
  ask(client.get(), 7, member_question::view, "");
  EXPECT_EQ(answer(client.get()).value().first, 6u);
  EXPECT_EQ(answer(client.get()), (std::pair<std::uint32_t, std::string>{7, "a view"}));
  caf::anon_send(gateway, beat_atom_v);
  EXPECT_EQ(answer(client.get()), (std::pair<std::uint32_t, std::string>{5, "removed"}));
}

/// A gateway that takes what clients tell a node and never answers, as if it were overloaded.
caf::behavior run_overloaded(caf::event_based_actor* self,
                             const std::shared_ptr<std::vector<caf::response_promise>>& open) {
  const auto keep = [self, open] {
    open->push_back(self->make_response_promise());
    return open->back();
  };
  return {[keep](used_atom, const std::string&, from_here) { return keep(); },
          [keep](warm_atom, const std::string&, from_here) { return keep(); },
          [keep](withdraw_atom, const std::string&) { return keep(); }};
}

TEST_F(lookup_server_test, who_tells_more_than_a_node_comes_to_take_is_cut_off) {
  const auto node =
      system.spawn(run_overloaded, std::make_shared<std::vector<caf::response_promise>>());
  serve(caf::actor_cast<directory_actor>(node), caf::actor_cast<gateway_actor>(node));
  for (const auto kind :
       {member_question::warm, member_question::used, member_question::withdraw}) {
    const auto client = connect_and_greet();
    for (std::uint32_t i = 0; i <= member_questions_open_max; ++i)
      ask(client.get(), i, kind, "");
    EXPECT_TRUE(is_closed_by_peer(client.get())) << static_cast<int>(kind);
  }
  caf::anon_send_exit(node, caf::exit_reason::user_shutdown);
}

TEST_F(lookup_server_test, a_forged_question_ends_its_connection_and_no_other) {
  const auto good = connect_and_greet();
  for (std::uint8_t kind = 0; kind <= member_question_kinds; ++kind) {
    const auto forged = connect_and_greet();
    ask(forged.get(), 1, static_cast<member_question>(kind), "no record");
    EXPECT_TRUE(is_closed_by_peer(forged.get())) << int{kind};
    const auto long_one = connect_and_greet();
    ask(long_one.get(), 1, static_cast<member_question>(kind), std::string(1u << 20, 'x'));
    EXPECT_TRUE(is_closed_by_peer(long_one.get())) << int{kind};
  }
  ask(good.get(), 1, member_question::hello, "");
  EXPECT_TRUE(answer(good.get()));
}

TEST_F(lookup_server_test, a_client_sees_that_its_idle_connection_was_closed) {
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

TEST_F(lookup_server_test, look_ups_are_answered_without_the_directory_actor) {
  const auto late = system.spawn(run_late_directory, std::make_shared<waiting_look_ups>());
  serve(caf::actor_cast<directory_actor>(late), caf::actor_cast<gateway_actor>(gateway));
  auto channel = net::frame_channel::open("127.0.0.1", port, greeting());
  ASSERT_TRUE(channel);
  const std::string key(directory::wire::key_bytes, 'k');
  (*channel)->ask(key, 4096);
  EXPECT_EQ(answer_of(**channel).size(), 1 + sizeof(directory::view_number));
  const auto client = connect_and_greet();
  ask(client.get(), 5, member_question::look_up, key);
  const auto answered = answer(client.get());
  ASSERT_TRUE(answered);
  EXPECT_EQ(answered->second.size(), 1 + sizeof(directory::view_number));
  caf::anon_send_exit(late, caf::exit_reason::user_shutdown);
}

TEST_F(lookup_server_test, look_ups_of_a_connection_are_answered_in_their_order) {
  const auto late = system.spawn(run_late_directory, std::make_shared<waiting_look_ups>());
  serve(caf::actor_cast<directory_actor>(late), caf::actor_cast<gateway_actor>(gateway));
  const auto client = connect(65536);
  const auto send = [&](const std::string& bytes) {
    ASSERT_EQ(::send(client.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  };
  caf::scoped_actor self{system};
  const auto wait_for = [&](std::uint64_t open) {
    const auto until = steady_clock::now() + std::chrono::seconds(10);
    std::uint64_t now = 0;
    while (now != open && steady_clock::now() < until)
      self->request(late, caf::infinite, stats_atom_v)
          .receive([&](std::uint64_t count) { now = count; }, [](const caf::error&) { FAIL(); });
    ASSERT_EQ(now, open) << "look-ups that the directory was asked";
  };
  const std::string first(directory::wire::key_bytes, '1');
  const std::string second(directory::wire::key_bytes, '2');
  std::string asked = greeting();
  frames::append_frame(asked, first);
  auto& changes =
      shard->lock()->records().memory().at(directory::header_unit).words[directory::changes_word];
  ++changes;
  send(asked);
  wait_for(1); // The shard is in the middle of a change, so the look-up went on to the directory.
  --changes;
  std::string next;
  frames::append_frame(next, second);
  send(next);
  wait_for(2);
  self->send(late, beat_atom_v);
  std::string got;
  while (got.size() < asked.size() - greeting().size() + next.size()) {
    char some = 0;
    ASSERT_EQ(::recv(client.get(), &some, 1, 0), 1);
    got.push_back(some);
  }
  EXPECT_EQ(got, asked.substr(greeting().size()) + next);
  caf::anon_send_exit(late, caf::exit_reason::user_shutdown);
}

TEST_F(lookup_server_test, look_ups_of_a_directory_that_has_ended_end_their_connections) {
  const std::string key(directory::wire::key_bytes, 'k');
  caf::scoped_actor self{system};
  self->send_exit(directory, caf::exit_reason::kill);
  self->wait_for(directory);
  ASSERT_FALSE(shard->try_look_up(key));
  const auto client = connect(65536);
  std::string asked = greeting();
  frames::append_frame(asked, key);
  ASSERT_EQ(::send(client.get(), asked.data(), asked.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(asked.size()));
  EXPECT_TRUE(is_closed_by_peer(client.get()));
}

TEST_F(lookup_server_test, a_peer_that_does_not_read_holds_up_no_other) {
  auto faulty = connect(4096);
  std::string flood = greeting();
  for (int i = 0; i < 64; ++i)
    frames::append_frame(flood, std::string(512 * directory::wire::key_bytes, 'k'));
  send_without_reading(faulty.get(), flood);
  auto channel = net::frame_channel::open("127.0.0.1", port, greeting());
  ASSERT_TRUE(channel);
  (*channel)->ask(std::string(8192 * directory::wire::key_bytes, 'k'), 4096);
  const auto answered = answer_of(**channel);
  // The shard has no view yet, so it says of each key that another node owns it.
  EXPECT_EQ(answered.size(), 8192u * (1 + sizeof(directory::view_number)));
}

TEST_F(lookup_server_test, an_answer_for_a_connection_that_is_gone_goes_to_nobody) {
  auto gone = connect_and_greet();
  ask(gone.get(), 5, member_question::remove, std::string(directory::wire::key_bytes, 'k'));
  ask(gone.get(), 6, member_question::hello, "");
  ASSERT_TRUE(answer(gone.get())) << "the server has passed the removal on";
  gone.reset();
  const auto next = connect_and_greet(); // Most likely of the same number in the server's process.
  ask(next.get(), 5, member_question::hello, "");
  ASSERT_TRUE(answer(next.get()));
  caf::anon_send(gateway, beat_atom_v);
  ask(next.get(), 7, member_question::view, "");
  EXPECT_EQ(answer(next.get()), (std::pair<std::uint32_t, std::string>{7, "a view"}));
}

TEST_F(lookup_server_test, a_question_that_comes_with_the_end_of_its_connection_is_answered) {
  const auto client = connect_and_greet();
  ask(client.get(), 5, member_question::look_up, std::string(directory::wire::key_bytes, 'k'));
  ASSERT_EQ(::shutdown(client.get(), SHUT_WR), 0);
  EXPECT_TRUE(answer(client.get()));
  EXPECT_TRUE(is_closed_by_peer(client.get()));
}

TEST_F(lookup_server_test, a_port_whose_server_has_ended_refuses_connections) {
  const auto open = connect_and_greet();
  ask(open.get(), 5, member_question::remove, std::string(directory::wire::key_bytes, 'k'));
  ask(open.get(), 6, member_question::hello, "");
  ASSERT_TRUE(answer(open.get()));
  serving.reset(); // The gateway still owes the answer to the removal.
  EXPECT_TRUE(is_closed_by_peer(open.get()));
  caf::anon_send(gateway, beat_atom_v);
  const net::unique_fd late{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  EXPECT_NE(dial(late.get()), 0);
}

TEST_F(lookup_server_test, answers_go_out_while_their_client_still_asks) {
  const auto client = connect(65536);
  std::string asked = greeting();
  for (int i = 0; i < 24; ++i) // More than the server receives at once, and less than it may hold.
    frames::append_frame(asked, std::string(128 * directory::wire::key_bytes, 'k'));
  asked.resize(asked.size() - 1); // The last question is never whole.
  ASSERT_EQ(::send(client.get(), asked.data(), asked.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(asked.size()));
  const std::size_t answered =
      23 * (frames::length_bytes + 128 * (1 + sizeof(directory::view_number)));
  std::string got(answered, '\0');
  EXPECT_EQ(::recv(client.get(), got.data(), got.size(), MSG_WAITALL),
            static_cast<ssize_t>(got.size()));
}

} // namespace
} // namespace peercache::actors::lookup_ports
