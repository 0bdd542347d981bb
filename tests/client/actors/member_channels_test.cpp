#include "client/members/member_channels.hpp"

#include "client/members/member_answers.hpp"
#include "tests/client/actors/lookup_server.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <poll.h>
#include <thread>

namespace peercache::client {
namespace {

using namespace std::chrono_literals;
using link::member_question;
using manner = lookup_server::manner;
using std::chrono::steady_clock;

class member_channels_test : public testing::Test {
protected:
  member_channels_test() {
    member.name = "there";
    member.id = node_id_of(member.name);
    member.inc = {3, 4};
    member.host = "127.0.0.1";
    member.lookup_port = server.port();
    channels.listen([this](const incarnation&, bool stands) {
      std::lock_guard guard{lock};
      heard.push_back(stands);
      changed.notify_all();
    });
    thread = std::thread([this] { channels.run(); });
  }
  ~member_channels_test() override {
    channels.stop();
    thread.join();
  }

  /// Waits until the listener of the channels has been told `wanted`, event by event.
  void await_heard(const std::vector<bool>& wanted) {
    std::unique_lock guard{lock};
    EXPECT_TRUE(changed.wait_for(guard, 20s, [&] { return heard == wanted; }))
        << testing::PrintToString(heard);
  }
  /// Asks one question, and waits until it is answered or ended.
  member_answers::outcome ask(member_question kind, const std::string& body,
                              steady_clock::duration within = 20s) {
    member_answers answers(channels, closing);
    const auto index = answers.ask(member.inc, kind, body, steady_clock::now() + within);
    answers.wait(steady_clock::now() + within);
    return answers.take(index);
  }

  close_signal closing;
  discovery::member member;
  lookup_server server{{3, 4}};
  member_channels channels{"test", nullptr};
  std::mutex lock;
  std::condition_variable changed;
  std::vector<bool> heard; ///< Guarded by lock.
  std::thread thread;
};

TEST_F(member_channels_test, a_member_stands_when_it_has_said_hello_and_is_asked_then) {
  server.say([](const link::numbered_question& asked) {
    return std::to_string(static_cast<int>(asked.kind)) + std::string(asked.body);
  });
  channels.open(member);
  await_heard({true});
  const std::string key(directory::wire::key_bytes, 'k');
  EXPECT_EQ(ask(member_question::remove, key).body, "3" + key);
  EXPECT_EQ(ask(member_question::view, "").body, "1");
}

TEST_F(member_channels_test, who_has_no_connection_to_a_member_gets_no_answer_from_it) {
  const auto said = ask(member_question::view, "");
  EXPECT_TRUE(said.ended);
  EXPECT_FALSE(said.body);
}

TEST_F(member_channels_test, another_process_at_the_address_is_not_the_member) {
  member.inc = {9, 9};
  channels.open(member);
  await_heard({false});
}

TEST_F(member_channels_test, a_member_whose_address_is_another_now_is_dialled_there) {
  channels.open(member);
  await_heard({true});
  channels.open(member);
  await_heard({true, true});
  member.host = "127.0.0.2"; // Nobody listens there.
  channels.open(member);
  await_heard({true, true, false});
  member.host = "127.0.0.1";
  channels.open(member);
  await_heard({true, true, false, true});
}

TEST_F(member_channels_test, a_port_where_nobody_listens_is_said_to_be_out_of_reach) {
  const auto nobody = *net::hold_port("127.0.0.1", 0);
  member.lookup_port = net::local_port(nobody);
  channels.open(member);
  await_heard({false});
}

TEST_F(member_channels_test, a_member_that_takes_the_connection_and_is_silent_is_not_there) {
  server.behave_to_members(manner::silent);
  channels.open(member);
  await_heard({false});
}

TEST_F(member_channels_test, a_member_that_falls_silent_is_gone_and_its_questions_end) {
  channels.open(member);
  await_heard({true});
  server.behave_to_members(manner::silent);
  const auto said = ask(member_question::view, "");
  EXPECT_TRUE(said.ended);
  EXPECT_FALSE(said.body);
  await_heard({true, false});
}

TEST_F(member_channels_test, an_answer_to_no_question_ends_the_connection) {
  channels.open(member);
  await_heard({true});
  server.behave_to_members(manner::raves);
  EXPECT_FALSE(ask(member_question::view, "").body);
  await_heard({true, false});
}

TEST_F(member_channels_test, a_wait_ends_with_its_deadline_with_the_client_and_no_later) {
  channels.open(member);
  await_heard({true});
  const auto begun = steady_clock::now();
  const auto said =
      ask(member_question::view, "", 50ms); // Unanswered, because the server has no speaker.
  EXPECT_FALSE(said.body);
  EXPECT_EQ(said.how, question_end::late);
  EXPECT_GE(steady_clock::now() - begun, 50ms);
  member_answers answers(channels, closing);
  const auto index = answers.ask(member.inc, member_question::view, "", steady_clock::now() + 60s);
  closing.give();
  answers.wait(steady_clock::now() + 60s);
  EXPECT_FALSE(answers.take(index).ended);
}

TEST_F(member_channels_test, many_questions_wait_for_room_and_all_are_answered) {
  server.say([](const link::numbered_question& asked) {
    return std::string(asked.body.size() / directory::wire::key_bytes, 'r');
  });
  channels.open(member);
  await_heard({true});
  member_answers answers(channels, closing);
  const auto until = steady_clock::now() + 60s;
  const std::string keys(limits::batch_pages_max * directory::wire::key_bytes, 'k');
  constexpr std::size_t count = 3 * link::member_questions_open_max;
  for (std::size_t i = 0; i < count; ++i)
    answers.ask(member.inc, member_question::remove, i % 8 == 0 ? keys : keys.substr(0, 32), until);
  answers.wait(until);
  for (std::size_t i = 0; i < count; ++i)
    EXPECT_EQ(answers.take(i).body.value_or("").size(), i % 8 == 0 ? limits::batch_pages_max : 1u);
}

TEST_F(member_channels_test, no_more_questions_are_open_than_a_member_lets_be) {
  std::atomic<std::size_t> asked{0};
  server.say([&](const link::numbered_question&) {
    ++asked;
    return std::nullopt;
  });
  channels.open(member);
  await_heard({true});
  member_answers answers(channels, closing);
  const auto until = steady_clock::now() + 300ms;
  for (std::size_t i = 0; i < 3 * link::member_questions_open_max; ++i)
    answers.ask(member.inc, member_question::view, "", until);
  answers.wait(until);
  EXPECT_GT(asked, 0u);
  // Only a few of a member's open questions may be questions for views, so fewer are open than its
  // limit.
  EXPECT_LT(asked, link::member_questions_open_max);
  server.say({});
}

TEST_F(member_channels_test, a_question_ends_with_its_time_and_keeps_its_place_at_the_member) {
  std::atomic<std::size_t> asked{0};
  server.say([&](const link::numbered_question&) {
    ++asked;
    return std::nullopt;
  });
  channels.open(member);
  await_heard({true});
  const auto until = steady_clock::now() + 500ms;
  member_answers answers(channels, closing);
  for (std::size_t i = 0; i < 2 * link::member_questions_open_max; ++i)
    answers.ask(member.inc, member_question::remove, "", until);
  // Waits much longer than until `until`, because the channel itself must end the questions then.
  answers.wait(steady_clock::now() + 60s);
  EXPECT_GE(steady_clock::now(), until);
  std::size_t late = 0;
  for (std::size_t i = 0; i < 2 * link::member_questions_open_max; ++i)
    late += answers.take(i).how == question_end::late ? 1 : 0;
  EXPECT_GT(late, 0u);
  EXPECT_LT(late, link::member_questions_open_max);
  member_answers more(channels, closing);
  const auto last = more.ask(member.inc, member_question::remove, "", steady_clock::now() + 50ms);
  more.wait(steady_clock::now() + 60s);
  EXPECT_EQ(more.take(last).how, question_end::not_sent)
      << "the member has not answered the others yet";
  EXPECT_LE(asked, late);
  server.say({});
}

/// Hands the channel its socket's events until `is_done` returns true.
void advance(member_channel& channel, steady_clock::time_point now,
             const std::function<bool()>& is_done) {
  while (!is_done()) {
    pollfd ready{channel.fd(), POLLIN | POLLOUT, 0};
    ASSERT_EQ(::poll(&ready, 1, 20'000), 1);
    channel.on_events(static_cast<std::uint32_t>(ready.revents));
    ASSERT_TRUE(channel.step(now));
  }
}

TEST_F(member_channels_test, who_stood_still_hears_what_came_meanwhile_before_it_gives_up) {
  const auto begun = steady_clock::now();
  member_channel channel(
      "there",
      net::stream_socket::dialled(*net::start_connect("127.0.0.1", server.port(), {}), nullptr),
      net::frames::greeting(link::wire_version, "test", member.inc, link::member_question_magic),
      begun);
  advance(channel, begun, [&] { return channel.stands(); });
  ASSERT_TRUE(channel.step(begun + member_channel::hello_every)); // Sends the next hello.
  pollfd answered{channel.fd(), POLLIN, 0};
  ASSERT_EQ(::poll(&answered, 1, 20'000), 1);
  // The channel is not told that the answer has arrived, as if the loop were busy with events of
  // other channels.
  EXPECT_TRUE(channel.step(begun + 10s));
  server.behave_to_members(manner::silent);
  ASSERT_TRUE(channel.step(begun + 10s + member_channel::hello_every));
  EXPECT_FALSE(channel.step(begun + 20s)) << "nothing came";
}

TEST_F(member_channels_test, promotes_that_wait_for_a_disk_hold_up_no_remove) {
  std::atomic<std::uint32_t> within_ms{0};
  server.say([&](const link::numbered_question& asked) -> std::optional<std::string> {
    if (asked.kind != member_question::promote)
      return "r";
    within_ms = link::promote_ms(asked.body);
    return std::nullopt;
  });
  channels.open(member);
  await_heard({true});
  member_answers answers(channels, closing);
  const auto body = link::promote_body(
      0, std::string(limits::batch_pages_max * sizeof(link::promoted_page), 'p'));
  for (std::size_t i = 0; i < 6; ++i)
    answers.ask(member.inc, member_question::promote, body, steady_clock::now() + 20s);
  EXPECT_EQ(ask(member_question::remove, std::string(directory::wire::key_bytes, 'k')).body, "r");
  ask(member_question::view, "");
  EXPECT_GT(within_ms, 0u) << "it is told what is left of its time";
  EXPECT_LT(within_ms, 20'000u);
  server.say({});
}

TEST_F(member_channels_test, removes_that_wait_for_the_pool_hold_up_no_view) {
  std::atomic<std::size_t> removes{0};
  server.say([&](const link::numbered_question& asked) -> std::optional<std::string> {
    if (asked.kind == member_question::view)
      return "v";
    ++removes;
    return std::nullopt;
  });
  channels.open(member);
  await_heard({true});
  member_answers answers(channels, closing);
  for (std::size_t i = 0; i < 2 * link::member_questions_open_max; ++i)
    answers.ask(member.inc, member_question::remove, std::string(directory::wire::key_bytes, 'k'),
                steady_clock::now() + 60s);
  EXPECT_EQ(ask(member_question::view, "").body, "v");
  EXPECT_GT(removes, 0u);
  EXPECT_LT(removes, link::member_questions_open_max);
  server.say({});
}

TEST_F(member_channels_test, a_node_that_left_the_view_is_left_alone) {
  channels.open(member);
  await_heard({true});
  channels.follow({});
  const auto said = ask(member_question::view, "");
  EXPECT_TRUE(said.ended);
  EXPECT_FALSE(said.body);
  await_heard({true});
}

} // namespace
} // namespace peercache::client
