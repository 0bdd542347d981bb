#include "client/members/promote_call.hpp"

#include "link/protocol/disk_wire.hpp"
#include "tests/client/actors/lookup_server.hpp"

#include <gtest/gtest.h>

#include <array>
#include <future>
#include <memory>
#include <thread>

namespace peercache::client {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

/// A promote call that asks one node, which answers when the test lets it.
class promote_call_test : public testing::Test {
protected:
  promote_call_test() {
    member.name = "there";
    member.id = node_id_of(member.name);
    member.inc = {3, 4};
    member.host = "127.0.0.1";
    member.lookup_port = server.port();
    channels.listen([this](const incarnation&, bool stands) {
      if (stands)
        connected.set_value();
    });
    thread = std::thread([this] { channels.run(); });
    channels.open(member);
    EXPECT_EQ(connected.get_future().wait_for(20s), std::future_status::ready);
    cluster.view.members.push_back(member);
    auto& peer = cluster.peers.emplace_back();
    peer.self = member;
    peer.reached = true;
    peer.lookup_port = server.port();
  }
  ~promote_call_test() override {
    channels.stop();
    thread.join();
  }

  static page_key key(std::size_t i) { return key_space{}.key_of(std::to_string(i)); }
  directory::page_location place() const {
    directory::page_location place;
    place.node = member.id;
    place.holder = member.inc;
    place.gen = {2};
    place.length_bytes = 4096;
    return place;
  }
  /// A plan for `count` pages, in questions of one page, two pages, and so on.
  promote_plan pages(std::uint32_t count) const {
    promote_plan plan(promote_plan::questions::growing);
    for (std::uint32_t i = 0; i < count; ++i)
      plan.add(i, key(i), place());
    return plan;
  }
  /// Returns the node's answer: to a promote, that it has each page; to any other question,
  /// nothing.
  std::string answer(const link::numbered_question& asked) const {
    if (asked.kind != link::member_question::promote)
      return {};
    const auto pages = link::record_count<link::promoted_page>(link::promote_pages(asked.body));
    std::string said;
    for (std::size_t i = 0; i < pages.value_or(0); ++i)
      directory::append_answer(said, std::array{place()});
    return said;
  }
  /// Waits until all earlier questions have ended: asks one more, because answers come in the order
  /// of the questions.
  void await_earlier_answers() {
    close_signal open;
    member_answers after(channels, open);
    const auto index = after.ask(member.inc, link::member_question::view, "", soon());
    after.wait(soon());
    EXPECT_TRUE(after.take(index).body);
  }
  static steady_clock::time_point soon() { return steady_clock::now() + 20s; }

  std::promise<void> connected;
  close_signal closing;
  discovery::member member;
  lookup_server server{{3, 4}};
  member_channels channels{"test", nullptr};
  link::topology cluster;
  std::thread thread;
};

TEST_F(promote_call_test, each_page_has_its_place_once) {
  server.say([this](const link::numbered_question& asked) { return answer(asked); });
  promote_call call(channels, closing, cluster, pages(7), soon());
  std::vector<int> times(7);
  for (auto places = call.take_next(); !places.empty(); places = call.take_next())
    for (const auto& now : places) {
      ++times.at(now.index);
      EXPECT_EQ(now.location, place());
    }
  EXPECT_EQ(times, std::vector<int>(7, 1));
}

TEST_F(promote_call_test, answers_after_the_end_of_the_wait_change_nothing) {
  std::promise<void> may_answer;
  server.say([this, gate = may_answer.get_future().share()](const link::numbered_question& asked) {
    gate.wait();
    return answer(asked);
  });
  promote_call call(channels, closing, cluster, pages(3), soon());
  closing.give();
  const auto places = call.take_next();
  ASSERT_EQ(places.size(), 3u);
  for (const auto& now : places)
    EXPECT_FALSE(now.location);
  may_answer.set_value();
  await_earlier_answers();
  EXPECT_TRUE(call.take_next().empty()) << "each page has had its place";
}

} // namespace
} // namespace peercache::client
