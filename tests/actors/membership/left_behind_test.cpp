// Tests of nodes that left in good order while other nodes went on and may have cleared spaces:
// what such a node must hear at its next start before it has caught up.

#include "tests/actors/knowing.hpp"

#include <gtest/gtest.h>
#include <initializer_list>
#include <string>

namespace peercache::actors::cleared_spaces_test {
namespace {

constexpr std::uint64_t now_s = 1'800'000'000;

/// Makes the node leave in good order; only `others` hear its goodbye. Returns the bytes that the
/// node keeps on disk.
std::string leave(knowing& who, std::initializer_list<knowing*> others = {}) {
  who.spaces.leave();
  for (auto* other : others)
    EXPECT_TRUE(other->spaces.hear(
        *cleared_spaces::decode_telling(who.spaces.tell(other->self.inc, true, true))));
  return who.spaces.encode_for_disk();
}

/// Returns the node's next process, which has read the bytes that the previous process kept.
knowing next(const knowing& before, const std::string& kept) {
  knowing made(before.self.name, before.self.inc.low + 1);
  EXPECT_TRUE(made.spaces.recall(kept));
  return made;
}

/// Two nodes that are members of one cluster and have caught up.
struct pair {
  knowing a{"a"}, b{"b"};
  pair() {
    meet(1, {&a, &b});
    tell(a, b);
    tell(a, b);
    EXPECT_TRUE(a.spaces.caught_up() && b.spaces.caught_up());
  }
};

TEST(left_behind, who_left_others_has_not_caught_up_alone) {
  pair both;
  auto a = next(both.a, leave(both.a, {&both.b}));
  both.b.spaces.raise(llama, 7);
  EXPECT_EQ(both.b.spaces.missing(), strings{}) << "the clear is certain";
  meet(2, {&a});
  EXPECT_FALSE(a.spaces.caught_up());
  EXPECT_EQ(a.spaces.awaited(), "b");
  meet(3, {&a, &both.b});
  tell(a, both.b);
  EXPECT_TRUE(a.spaces.caught_up());
  EXPECT_EQ(a.spaces.epoch_of(llama), 7u);
  EXPECT_EQ(a.spaces.awaited(), "");
}

TEST(left_behind, the_last_one_left_nobody_behind_and_the_first_one_waits_for_it) {
  pair both;
  const auto kept_a = leave(both.a, {&both.b});
  both.b.spaces.raise(llama, 7);
  auto b = next(both.b, leave(both.b));
  auto a = next(both.a, kept_a);
  meet(2, {&a, &b});
  EXPECT_FALSE(a.spaces.caught_up() || b.spaces.caught_up());
  tell(a, b);
  EXPECT_TRUE(b.spaces.caught_up());
  tell(a, b);
  EXPECT_TRUE(a.spaces.caught_up()) << "it is another process, of the same lineage";
  EXPECT_EQ(a.spaces.epoch_of(llama), 7u);
  auto alone = next(b, leave(b, {&a}));
  auto last = next(a, leave(a));
  meet(4, {&last});
  EXPECT_TRUE(last.spaces.caught_up());
  meet(4, {&alone});
  EXPECT_FALSE(alone.spaces.caught_up());
}

TEST(left_behind, those_who_left_at_once_have_caught_up_when_they_have_told_each_other) {
  pair both;
  auto a = next(both.a, leave(both.a)); // Node b did not hear a's goodbye.
  auto b = next(both.b, leave(both.b));
  meet(2, {&a, &b});
  tell(a, b);
  EXPECT_TRUE(a.spaces.caught_up());
  tell(b, a);
  EXPECT_TRUE(b.spaces.caught_up());
}

TEST(left_behind, whom_those_left_behind_is_waited_for_as_well) {
  pair both;
  auto a = next(both.a, leave(both.a, {&both.b}));
  knowing c("c");
  meet(2, {&both.b, &c});
  tell(c, both.b);
  auto b = next(both.b, leave(both.b, {&c}));
  c.spaces.raise(llama, 7);
  meet(3, {&a, &b});
  for (int i = 0; i < 3; ++i)
    tell(a, b);
  EXPECT_FALSE(a.spaces.caught_up() || b.spaces.caught_up());
  meet(4, {&a, &b, &c});
  tell(b, c);
  EXPECT_TRUE(b.spaces.caught_up());
  tell(a, b);
  EXPECT_TRUE(a.spaces.caught_up());
  EXPECT_EQ(a.spaces.epoch_of(llama), 7u);
}

/// A node that crashed need not wait for other nodes at its next start: clears without it were not
/// certain, because the other nodes knew that it was missing.
TEST(left_behind, who_crashed_starts_as_ever) {
  pair both;
  auto a = next(both.a, both.a.spaces.encode_for_disk());
  meet(2, {&a});
  EXPECT_TRUE(a.spaces.caught_up());
  knowing b("b", 2); // A new process of node b, which has crashed, too.
  EXPECT_TRUE(b.spaces.recall(both.b.spaces.encode_for_disk()));
  meet(2, {&b});
  EXPECT_TRUE(b.spaces.caught_up());
}

TEST(left_behind, a_node_that_was_ever_alone_leaves_nobody_behind) {
  knowing before("a");
  meet(1, {&before});
  auto after = next(before, leave(before));
  meet(1, {&after});
  EXPECT_TRUE(after.spaces.caught_up());
}

/// A node of the awaited name may have founded a new cluster when all nodes that knew of the clears
/// were gone. Though it has caught up there, it cannot tell of the clears.
TEST(left_behind, a_stranger_of_the_same_name_does_not_count) {
  pair both;
  const auto page = space_named("llama");
  auto a = next(both.a, leave(both.a, {&both.b}));
  both.b.spaces.raise(page, 7);
  knowing b("b", 9);
  meet(2, {&b});
  ASSERT_TRUE(b.spaces.caught_up());
  meet(3, {&a, &b});
  for (int i = 0; i < 3; ++i)
    tell(a, b);
  EXPECT_FALSE(a.spaces.caught_up());
  a.spaces.wait_no_longer(now_s);
  EXPECT_TRUE(a.spaces.caught_up());
  tell(a, b);
  EXPECT_EQ(b.spaces.epoch_of(page), a.spaces.epoch_of(page));
}

TEST(left_behind, who_waits_no_longer_has_no_page_of_before) {
  pair both;
  both.a.spaces.raise(qwen, 5);
  both.a.spaces.raise(llama,
                      3'000'000'000u / 2); // An epoch of a node whose clock was fast.
  auto a = next(both.a, leave(both.a, {&both.b}));
  meet(2, {&a});
  a.spaces.wait_no_longer(now_s);
  EXPECT_TRUE(a.spaces.caught_up());
  EXPECT_EQ(a.spaces.awaited(), "");
  EXPECT_GT(a.spaces.epoch_of(llama), 3'000'000'000u / 2);
  EXPECT_EQ(a.spaces.epoch_of(qwen), a.spaces.epoch_of(llama)) << "all spaces";
  EXPECT_GT(a.spaces.epoch_of(space_named("other")), 0u) << "also those that nobody cleared";
  auto again = next(a, a.spaces.encode_for_disk());
  meet(3, {&again});
  EXPECT_TRUE(again.spaces.caught_up()) << "it was given up once and for all";
  EXPECT_EQ(again.spaces.epoch_of(llama), a.spaces.epoch_of(llama));
}

TEST(left_behind, who_ends_while_it_waits_waits_again) {
  pair both;
  auto a = next(both.a, leave(both.a, {&both.b}));
  meet(2, {&a});
  auto killed = next(a, a.spaces.encode_for_disk());
  meet(3, {&killed});
  EXPECT_EQ(killed.spaces.awaited(), "b");
  knowing c("c");
  meet(4, {&killed, &c});
  auto left = next(killed, leave(killed));
  meet(5, {&left});
  EXPECT_EQ(left.spaces.awaited(), "b, c") << "the one that it met may clear, too";
}

TEST(left_behind, two_memories_of_one_node_count_together) {
  pair here, there;
  auto a = next(here.a, leave(here.a, {&here.b}));
  life_record other;
  other.lineage = here.a.spaces.life().lineage;
  a.spaces.recall(other); // The record in the node's pool, of the same lineage, adds nothing.
  EXPECT_EQ(a.spaces.life().lineage, here.a.spaces.life().lineage);
  other.lineage = incarnation{1, 99};
  other.left_behind[incarnation{1, 98}] = "c";
  a.spaces.recall(other);
  meet(2, {&a});
  EXPECT_EQ(a.spaces.awaited(), "b, c");
  knowing c("c");
  meet(2, {&c});
  meet(3, {&a, &c});
  tell(a, c);
  EXPECT_FALSE(a.spaces.caught_up());
}

TEST(left_behind, what_cannot_be_read_stands_for_nodes_that_are_not_known) {
  knowing a("a", 2);
  a.spaces.recall(record_of_unknown());
  meet(1, {&a});
  EXPECT_FALSE(a.spaces.caught_up());
  EXPECT_NE(a.spaces.awaited(), "");
  knowing b("b");
  meet(2, {&a, &b});
  tell(a, b);
  tell(a, b);
  EXPECT_FALSE(a.spaces.caught_up());
}

/// Members may clear without a node that has left, so what this node tells lets nobody catch up.
TEST(left_behind, what_a_node_tells_that_leaves_lets_nobody_catch_up) {
  pair both;
  knowing c("c");
  meet(2, {&both.a, &both.b, &c});
  leave(both.a, {&c});
  EXPECT_FALSE(c.spaces.caught_up());
  tell(c, both.b);
  EXPECT_TRUE(c.spaces.caught_up());
}

TEST(left_behind, all_members_get_one_lineage) {
  knowing a("a"), b("b"), c("c");
  meet(1, {&a, &b, &c});
  for (int round = 0; round < 4; ++round)
    for (auto [one, other] : {std::pair{&a, &b}, std::pair{&b, &c}, std::pair{&c, &a}})
      if (!one->spaces.caught_up() || one->spaces.is_to_hear(other->self.inc))
        tell(*one, *other);
  EXPECT_NE(a.spaces.life().lineage, incarnation{});
  EXPECT_EQ(a.spaces.life().lineage, b.spaces.life().lineage);
  EXPECT_EQ(a.spaces.life().lineage, c.spaces.life().lineage);
  EXPECT_FALSE(a.spaces.is_to_hear(b.self.inc)) << "and they come to rest";
}

TEST(left_behind, a_record_that_does_not_fit_names_nobody) {
  life_record record;
  record.lineage = {1, 2};
  record.process = {3, 4};
  for (std::uint64_t i = 1; i <= 3; ++i)
    record.left_behind[{i, i}] = "node-" + std::to_string(i);
  const auto whole = encode_record(record);
  byte_reader in(whole);
  EXPECT_EQ(read_record(in), record);
  EXPECT_TRUE(in.finished());
  EXPECT_EQ(encode_record(record, whole.size()), whole);
  const auto shorter = encode_record(record, whole.size() - 1);
  byte_reader rest(shorter);
  const auto read = read_record(rest);
  EXPECT_TRUE(rest.finished());
  EXPECT_EQ(read.left_behind, record_of_unknown().left_behind);
  EXPECT_EQ(read.lineage, record.lineage);
}

TEST(left_behind, damaged_memories_are_refused) {
  pair both;
  const auto kept = leave(both.a);
  for (std::size_t cut = 0; cut < kept.size(); ++cut) {
    knowing a("a", 2);
    EXPECT_FALSE(a.spaces.recall(kept.substr(0, cut))) << cut;
    EXPECT_EQ(a.spaces.life(), life_record{});
  }
  const auto told = both.b.spaces.tell(both.a.self.inc);
  const auto list = both.b.spaces.encode().size();
  for (std::size_t cut = 0; cut < told.size() - list; ++cut)
    EXPECT_FALSE(cleared_spaces::decode_telling(told.substr(0, cut))) << cut;
}

} // namespace
} // namespace peercache::actors::cleared_spaces_test
