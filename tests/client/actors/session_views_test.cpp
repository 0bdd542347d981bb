// How a client hears the views of its host's node: whole, or as differences.

#include "discovery/view_difference.hpp"
#include "tests/client/actors/client_fixture.hpp"

#include <algorithm>

namespace peercache::client {
namespace {

class session_views_test : public client_fixture {
protected:
  static discovery::view first_view() {
    discovery::view made{.term = 3, .version = 7, .issuer = {1, 2}};
    for (std::uint64_t i = 1; i <= 5; ++i) {
      auto& who = made.members.emplace_back();
      who.name = "n" + std::to_string(i);
      who.id = node_id_of(who.name);
      who.inc = {i, i};
      who.host = "10.0.0.1";
    }
    std::sort(made.members.begin(), made.members.end(),
              [](const auto& a, const auto& b) { return a.id < b.id; });
    made.masters = {made.members.front().name};
    return made;
  }
  static discovery::view after(discovery::view base) {
    ++base.version;
    auto& who = base.members[base.version % base.members.size()];
    who.draining = !who.draining;
    return base;
  }

  void hear(const std::string& told) {
    caf::anon_send(actor, link::view_atom_v, told);
    settle();
  }
  void hear_change(const discovery::view& from, const discovery::view& to) {
    hear(discovery::encode_difference(*discovery::difference_between(from, to)));
  }
};

TEST_F(session_views_test, differences_become_the_whole_views_that_follow_each_other) {
  const auto first = first_view();
  const auto second = after(first);
  const auto third = after(second);
  views.clear();
  hear(discovery::encode_view(first));
  hear_change(first, second);
  hear_change(second, third);
  EXPECT_EQ(views, (std::vector{discovery::encode_view(first), discovery::encode_view(second),
                                discovery::encode_view(third)}));
}

TEST_F(session_views_test, the_welcome_brings_the_first_base) {
  const auto first = first_view();
  node.welcome.view = discovery::encode_view(first);
  lose_node();
  pass(std::chrono::milliseconds(250));
  ASSERT_NE(board->pool(), nullptr);
  ASSERT_EQ(views.back(), node.welcome.view);
  hear_change(first, after(first));
  EXPECT_EQ(views.back(), discovery::encode_view(after(first)));
}

TEST_F(session_views_test, after_a_lost_view_the_node_is_asked_for_the_whole_one) {
  const auto first = first_view();
  const auto lost = after(first);
  const auto third = after(lost);
  int questions = 0;
  node.view = [&] {
    ++questions;
    return discovery::encode_view(third);
  };
  hear(discovery::encode_view(first));
  hear_change(lost, third);
  EXPECT_EQ(questions, 1);
  EXPECT_EQ(views.back(), discovery::encode_view(third));
  const auto fourth = after(third);
  hear_change(third, fourth);
  EXPECT_EQ(questions, 1);
  EXPECT_EQ(views.back(), discovery::encode_view(fourth));
}

TEST_F(session_views_test, a_node_that_tells_nonsense_is_asked_once_for_each_time) {
  int questions = 0;
  node.view = [&] {
    ++questions;
    return std::string("nonsense");
  };
  const auto told = views;
  hear("nonsense");
  hear("");
  EXPECT_EQ(questions, 2);
  EXPECT_EQ(views, told);
}

} // namespace
} // namespace peercache::client
