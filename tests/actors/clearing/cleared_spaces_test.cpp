#include "tests/actors/knowing.hpp"

#include <algorithm>
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace peercache::actors::cleared_spaces_test {
namespace {

TEST(cleared_spaces, those_who_tell_each_other_know_the_same) {
  knowing a("a"), b("b");
  a.spaces.raise(llama, 3);
  a.spaces.raise(qwen, 1);
  b.spaces.raise(qwen, 2);
  tell(a, b);
  for (auto* node : {&a, &b}) {
    EXPECT_EQ(node->spaces.epoch_of(llama), 3u);
    EXPECT_EQ(node->spaces.epoch_of(qwen), 2u);
  }
  EXPECT_FALSE(a.spaces.is_to_hear(b.self.inc));
  a.spaces.raise(llama, 4);
  EXPECT_TRUE(a.spaces.is_to_hear(b.self.inc));
}

TEST(cleared_spaces, what_a_node_knew_it_knows_again_from_its_disk) {
  knowing before("a"), after("a", 2);
  before.spaces.raise(llama, 3);
  EXPECT_TRUE(*after.spaces.merge(before.spaces.encode()));
  EXPECT_EQ(after.spaces.epoch_of(llama), 3u);
  EXPECT_FALSE(*after.spaces.merge(before.spaces.encode())) << "nothing rose";
}

TEST(cleared_spaces, damaged_bytes_change_nothing) {
  knowing a("a"), b("b");
  a.spaces.raise(llama, 3);
  const auto whole = a.spaces.encode();
  for (std::size_t cut = 0; cut < whole.size(); ++cut)
    EXPECT_FALSE(b.spaces.merge(whole.substr(0, cut))) << cut;
  EXPECT_FALSE(b.spaces.merge(whole + "x"));
  auto newer = whole;
  newer[0] = 99;
  EXPECT_FALSE(b.spaces.merge(newer));
  EXPECT_FALSE(cleared_spaces::decode_telling("short"));
  EXPECT_EQ(b.spaces.epoch_of(llama), 0u);
}

TEST(cleared_spaces, an_epoch_that_leaves_no_room_for_later_clears_is_refused) {
  knowing a("a");
  EXPECT_FALSE(a.spaces.raise(llama, 0xfffffff0));
  EXPECT_EQ(a.spaces.epoch_of(llama), 0u);
}

TEST(cleared_spaces, a_node_alone_has_caught_up_with_itself) {
  knowing a("a");
  EXPECT_FALSE(a.spaces.caught_up()) << "it is in no view yet";
  a.spaces.adopt(view_of(1, {named("b")}));
  EXPECT_FALSE(a.spaces.caught_up());
  a.spaces.adopt(view_of(2, {named("a")}));
  EXPECT_TRUE(a.spaces.caught_up());
}

TEST(cleared_spaces, a_node_that_joins_has_caught_up_when_a_member_has_told_it) {
  knowing old("old"), fresh("fresh");
  old.spaces.adopt(view_of(1, {old.self}));
  old.spaces.raise(llama, 1);
  const auto both = view_of(2, {old.self, fresh.self});
  fresh.spaces.adopt(both);
  EXPECT_FALSE(fresh.spaces.caught_up());
  old.spaces.adopt(both);
  tell(fresh, old);
  EXPECT_TRUE(fresh.spaces.caught_up());
  EXPECT_EQ(fresh.spaces.epoch_of(llama), 1u);
}

/// By an older view, which lacks the joining node, a member may take part in a clear that does not
/// ask this node. So the answer of a member with such a view does not let the node catch up.
TEST(cleared_spaces, a_member_that_does_not_know_the_new_view_does_not_count) {
  knowing old("old"), fresh("fresh");
  old.spaces.adopt(view_of(1, {old.self}));
  fresh.spaces.adopt(view_of(2, {old.self, fresh.self}));
  tell(fresh, old);
  EXPECT_FALSE(fresh.spaces.caught_up());
  old.spaces.raise(llama, 1);
  old.spaces.adopt(view_of(2, {old.self, fresh.self}));
  tell(fresh, old);
  EXPECT_TRUE(fresh.spaces.caught_up());
  EXPECT_EQ(fresh.spaces.epoch_of(llama), 1u);
}

TEST(cleared_spaces, those_who_all_start_have_caught_up_when_all_have_told) {
  knowing a("a"), b("b"), c("c");
  c.spaces.raise(llama, 2); // Node c has this epoch from its own disk.
  const auto all = view_of(1, {a.self, b.self, c.self});
  for (auto* node : {&a, &b, &c})
    node->spaces.adopt(all);
  tell(a, b);
  EXPECT_FALSE(a.spaces.caught_up());
  EXPECT_FALSE(b.spaces.caught_up());
  tell(c, a);
  EXPECT_TRUE(a.spaces.caught_up());
  EXPECT_EQ(a.spaces.epoch_of(llama), 2u);
  tell(b, a);
  EXPECT_TRUE(b.spaces.caught_up());
  EXPECT_EQ(b.spaces.epoch_of(llama), 2u);
}

TEST(cleared_spaces, who_left_is_missing_until_it_is_back) {
  knowing a("a");
  a.spaces.adopt(view_of(1, {a.self, named("b"), named("c")}));
  EXPECT_EQ(a.spaces.missing(), strings{});
  a.spaces.adopt(view_of(2, {a.self, named("c")}));
  EXPECT_EQ(a.spaces.missing(), strings{"b"});
  a.spaces.adopt(view_of(3, {a.self, named("c"), named("b", 2)}));
  EXPECT_EQ(a.spaces.missing(), strings{}) << "its process was replaced";
}

/// A lost process may still run, frozen or cut off, with engines that read its pool. A new process
/// of the same name at another address does not prove that the lost one has ended.
TEST(cleared_spaces, the_name_elsewhere_says_nothing_of_the_process_that_was_lost) {
  auto lost = named("b");
  lost.host = "10.0.0.1";
  lost.control_port = 31998;
  auto other_host = named("b", 2);
  other_host.host = "10.0.0.2";
  other_host.control_port = lost.control_port;
  auto other_port = named("b", 2);
  other_port.host = lost.host;
  other_port.control_port = 41998;
  const std::string label = "b at 10.0.0.1:31998";
  for (const auto& elsewhere : {other_host, other_port})
    for (const bool at_once : {false, true}) {
      knowing a("a"), c("c"), later("a", 2);
      a.spaces.adopt(view_of(2, {a.self, lost, c.self}));
      if (!at_once)
        a.spaces.adopt(view_of(3, {a.self, c.self}));
      for (auto* node : {&a, &c})
        node->spaces.adopt(view_of(4, {a.self, elsewhere, c.self}));
      EXPECT_EQ(a.spaces.missing(), strings{label});
      tell(c, a);
      EXPECT_EQ(c.spaces.missing(), strings{label});
      ASSERT_TRUE(later.spaces.merge(a.spaces.encode()));
      auto back = lost;
      back.inc = named("b", 3).inc;
      later.spaces.adopt(view_of(5, {later.self, back}));
      EXPECT_EQ(later.spaces.missing(), strings{}) << "it is back where it was";
      a.spaces.forgive(at_once ? "b" : label);
      EXPECT_EQ(a.spaces.missing(), strings{});
    }
}

TEST(cleared_spaces, a_node_that_joins_hears_who_is_missing) {
  knowing a("a"), later("later");
  a.spaces.adopt(view_of(1, {a.self, named("b")}));
  a.spaces.adopt(view_of(2, {a.self}));
  const auto now = view_of(3, {a.self, later.self});
  a.spaces.adopt(now);
  later.spaces.adopt(now);
  tell(later, a);
  EXPECT_EQ(later.spaces.missing(), strings{"b"});
}

TEST(cleared_spaces, an_operator_says_that_a_node_will_never_be_back) {
  knowing a("a"), c("c");
  a.spaces.adopt(view_of(1, {a.self, named("b"), c.self}));
  c.spaces.adopt(view_of(1, {a.self, named("b"), c.self}));
  a.spaces.adopt(view_of(2, {a.self, c.self}));
  c.spaces.adopt(view_of(2, {a.self, c.self}));
  a.spaces.forgive("b");
  EXPECT_EQ(a.spaces.missing(), strings{});
  EXPECT_EQ(c.spaces.missing(), strings{"b"});
  tell(c, a);
  EXPECT_EQ(c.spaces.missing(), strings{});
  a.spaces.adopt(view_of(3, {a.self, c.self, named("b", 2)}));
  a.spaces.adopt(view_of(4, {a.self, c.self}));
  EXPECT_EQ(a.spaces.missing(), strings{"b"}) << "another process, lost again";
}

TEST(cleared_spaces, members_are_unaware_until_they_have_said_the_epoch) {
  knowing a("a"), b("b"), c("c");
  meet(1, {&a, &b, &c});
  a.spaces.raise(llama, 5);
  EXPECT_EQ(a.spaces.unaware(llama, 5).size(), 2u);
  tell(a, b);
  EXPECT_EQ(a.spaces.unaware(llama, 5), strings{"c"});
  tell(a, c);
  EXPECT_EQ(a.spaces.unaware(llama, 5), strings{});
  EXPECT_EQ(a.spaces.unaware(qwen, 1).size(), 2u) << "of another space they have said nothing";
}

/// A member that answers by another view may know a node of that view which the asking node does
/// not know yet.
TEST(cleared_spaces, what_a_member_said_by_another_view_does_not_count) {
  knowing a("a"), b("b"), joins("joins");
  meet(1, {&a, &b});
  b.spaces.adopt(view_of(2, {a.self, b.self, joins.self}));
  a.spaces.raise(llama, 5);
  tell(a, b);
  EXPECT_EQ(a.spaces.unaware(llama, 5), strings{"b"});
  meet(2, {&a, &b, &joins});
  EXPECT_EQ(a.spaces.unaware(llama, 5), strings{"joins"}) << "b has said it by this view";
  tell(a, joins);
  EXPECT_EQ(a.spaces.unaware(llama, 5), strings{});
}

TEST(cleared_spaces, a_member_that_is_not_done_with_it_is_unaware) {
  knowing a("a"), b("b");
  meet(1, {&a, &b});
  a.spaces.raise(llama, 5);
  tell(a, b);
  ASSERT_TRUE(
      a.spaces.hear(*cleared_spaces::decode_telling(b.spaces.tell(a.self.inc, /*done=*/false))));
  EXPECT_EQ(a.spaces.unaware(llama, 5), strings{"b"});
}

TEST(cleared_spaces, who_takes_its_leave_is_not_missing) {
  knowing a("a"), b("b"), c("c");
  meet(1, {&a, &b, &c});
  ASSERT_TRUE(a.spaces.hear(
      *cleared_spaces::decode_telling(b.spaces.tell(a.self.inc, true, /*leaves=*/true))));
  for (auto* node : {&a, &c})
    node->spaces.adopt(view_of(2, {a.self, c.self}));
  EXPECT_EQ(a.spaces.missing(), strings{});
  EXPECT_EQ(c.spaces.missing(), strings{"b"}) << "it was not told";
  tell(c, a);
  EXPECT_EQ(c.spaces.missing(), strings{});
  a.spaces.adopt(view_of(3, {a.self, named("b", 2), c.self}));
  a.spaces.adopt(view_of(4, {a.self, c.self}));
  EXPECT_EQ(a.spaces.missing(), strings{"b"}) << "another process, which was lost";
}

/// A leaving node serves its readers to the end, even when the view lacks it. So clears miss it
/// until it says that it leaves.
TEST(cleared_spaces, who_says_that_it_leaves_after_it_left_the_view_is_missing_until_then) {
  knowing a("a"), b("b");
  meet(1, {&a, &b});
  a.spaces.adopt(view_of(2, {a.self}));
  EXPECT_EQ(a.spaces.missing(), strings{"b"});
  ASSERT_TRUE(a.spaces.hear(
      *cleared_spaces::decode_telling(b.spaces.tell(a.self.inc, true, /*leaves=*/true))));
  EXPECT_EQ(a.spaces.missing(), strings{});
}

TEST(cleared_spaces, after_a_restart_the_members_of_before_are_missing_until_they_are_back) {
  knowing before("a"), after("a", 2), b("b");
  before.spaces.adopt(view_of(1, {before.self, b.self, named("c")}));
  ASSERT_TRUE(after.spaces.recall(before.spaces.encode_for_disk()));
  after.spaces.adopt(view_of(1, {after.self}));
  EXPECT_EQ(after.spaces.missing(), (strings{"b", "c"})) << "they may live without it";
  after.spaces.adopt(view_of(2, {after.self, b.self}));
  EXPECT_EQ(after.spaces.missing(), strings{"c"});
}

/// When two halves of a cluster clear the same space, pages that one half has set since its clear
/// must count as older than a later clear of the other half.
TEST(cleared_spaces, a_later_clear_has_a_higher_epoch_also_where_nobody_told_of_the_earlier_one) {
  knowing a("a"), b("b");
  const std::uint64_t now = 1'800'000'000;
  const auto earlier = a.spaces.next_epoch(llama, now);
  EXPECT_GT(b.spaces.next_epoch(llama, now + 1), earlier);
  a.spaces.raise(llama, earlier);
  EXPECT_GT(a.spaces.next_epoch(llama, now), earlier) << "within a second";
  EXPECT_GT(a.spaces.next_epoch(llama, now - 1000), earlier) << "by a clock that was set back";
  EXPECT_EQ(b.spaces.next_epoch(llama, 0), 1u) << "without a clock they are counted";
  const auto absurd = b.spaces.next_epoch(llama, ~std::uint64_t{0});
  EXPECT_TRUE(b.spaces.raise(llama, absurd));
  EXPECT_TRUE(b.spaces.raise(llama, b.spaces.next_epoch(llama, ~std::uint64_t{0})))
      << "a clock that is wrong leaves room for later clears";
}

TEST(cleared_spaces, remembers_so_many_that_are_gone_and_those_first_that_nobody_forgave) {
  knowing a("a");
  a.spaces.adopt(view_of(1, {a.self, named("old")}));
  a.spaces.adopt(view_of(2, {a.self}));
  a.spaces.forgive("old");
  auto members = std::vector{a.self};
  for (std::size_t i = 0; i < cleared_spaces::missing_max + 5; ++i)
    members.push_back(named("node-" + std::to_string(i)));
  a.spaces.adopt(view_of(3, members));
  a.spaces.adopt(view_of(4, {a.self}));
  EXPECT_EQ(a.spaces.missing().size(), cleared_spaces::missing_max);
}

} // namespace
} // namespace peercache::actors::cleared_spaces_test
