#include "client/lookup/lookup_plan.hpp"

#include "directory/shard_batch.hpp"
#include "directory/wire.hpp"
#include "discovery/view.hpp"

#include <algorithm>
#include <array>
#include <gtest/gtest.h>
#include <map>
#include <set>
#include <utility>

namespace peercache::client {
namespace {

using use = lookup_plan::use;

use any(node_id) {
  return use::yes;
}

/// Real directory shards, and the view that a client has of them.
class lookup_plan_test : public testing::Test {
protected:
  struct node {
    discovery::member self;
    directory::shard shard;
    discovery::hash_ring ring; ///< The hash ring of the view that the node has.
    directory::view_number view{1, 1};
    bool dead = false;
    std::uint64_t asked = 0;
  };

  static constexpr std::size_t keys_count = 64;
  static constexpr std::uint32_t replicas = 2;

  void SetUp() override {
    for (std::size_t i = 0; i < 6; ++i) {
      auto& made = nodes[i];
      made.self.name = "node" + std::to_string(i);
      made.self.id = node_id_of(made.self.name);
      made.self.inc = {1, i + 1};
      ids[made.self.id] = i;
    }
    for (std::size_t i = 0; i < keys_count; ++i)
      keys.push_back(key_space{}.key_of(std::to_string(i)));
    answers.resize(keys.size());
  }

  discovery::hash_ring ring_of(const std::vector<std::size_t>& members) {
    std::vector<discovery::member> list;
    for (auto i : members)
      list.push_back(nodes[i].self);
    std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
    return discovery::hash_ring(list);
  }

  /// Makes a view of this version whose members are these nodes, and gives it to each of them.
  void tell(const std::vector<std::size_t>& members, std::uint64_t version) {
    std::vector<incarnation> living;
    for (auto i : members)
      living.push_back(nodes[i].self.inc);
    for (auto i : members) {
      nodes[i].ring = ring_of(members);
      nodes[i].view = {1, version};
      nodes[i].shard.set_members(living);
    }
  }

  /// Publishes all keys, as pages of node 0, to their owners by node 0's ring.
  void publish_all() {
    for (const auto& key : keys) {
      std::array<node_id, replicas> owners;
      auto count = nodes[0].ring.owners(key, owners);
      for (std::size_t i = 0; i < count; ++i)
        publish_to(ids.at(owners[i]), key);
    }
  }

  void publish_to(std::size_t i, const page_key& key) {
    directory::page_location location{.node = nodes[0].self.id,
                                      .holder = nodes[0].self.inc,
                                      .gen = {2},
                                      .checksum = 0,
                                      .slot = {},
                                      .length_bytes = 4096};
    ASSERT_EQ(nodes[i].shard.publish(key, location, directory::publish_mode::always),
              directory::publish_outcome::accepted);
  }

  owners_known known(const discovery::hash_ring& now, std::uint64_t version) {
    owners_known what;
    what.view = {1, version};
    what.now = &now;
    what.replicas = replicas;
    what.is_member = [](const auto&) { return true; };
    return what;
  }

  std::string answer_of(node& whom, const std::string& request) {
    ++whom.asked;
    std::uint64_t foreign = 0;
    directory::key_ownership ownership{
        [&](const page_key& key) { return whom.ring.owns(whom.self.id, key, replicas); },
        whom.view};
    return *directory::lookup_batch(whom.shard, request, ownership, foreign);
  }

  /// Asks the owners that the plan names, round by round, until it names none. Returns the number
  /// of rounds.
  std::size_t run(lookup_plan& plan) {
    std::set<node_id> given_up;
    for (std::size_t rounds = 0;; ++rounds) {
      auto shares = plan.next_round(
          [&](node_id id) { return given_up.count(id) > 0 ? use::left_alone : use::yes; });
      if (shares.empty() || (plan.is_behind() && stop_when_behind))
        return rounds;
      for (const auto& share : shares) {
        auto& whom = nodes[ids.at(share.owner)];
        if (whom.dead) {
          plan.failed(share, page_status::unreachable);
          given_up.insert(share.owner);
        } else {
          EXPECT_TRUE(plan.answered(share, answer_of(whom, share.request)));
        }
      }
      if (plan.is_behind() && stop_when_behind)
        return rounds + 1;
    }
  }

  std::size_t hits() const {
    return static_cast<std::size_t>(
        std::count_if(answers.begin(), answers.end(),
                      [](const auto& a) { return a.status == page_status::hit; }));
  }

  std::array<node, 6> nodes;
  std::map<node_id, std::size_t> ids;
  std::vector<page_key> keys;
  std::vector<lookup_answer> answers;
  bool stop_when_behind = true;
};

TEST_F(lookup_plan_test, finds_every_key_and_asks_nobody_twice) {
  tell({0, 1, 2}, 1);
  publish_all();
  lookup_plan plan{keys, answers};
  plan.follow(known(nodes[0].ring, 1));
  EXPECT_EQ(run(plan), 1u);
  plan.finish();
  EXPECT_EQ(hits(), keys_count);
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_LE(nodes[i].asked, 1u);
}

TEST_F(lookup_plan_test, asks_no_more_owners_of_a_few_keys_than_it_must) {
  tell({0, 1, 2}, 1);
  publish_all();
  constexpr std::size_t few = 20;
  lookup_plan plan{std::span(keys).first(few), std::span(answers).first(few)};
  plan.follow(known(nodes[0].ring, 1));
  EXPECT_EQ(run(plan), 1u);
  plan.finish();
  EXPECT_EQ(hits(), few);
  EXPECT_EQ(nodes[0].asked + nodes[1].asked + nodes[2].asked, 2u) << "any two have all keys";
}

TEST_F(lookup_plan_test, the_keys_of_a_dead_owner_are_found_at_once_before_any_new_view) {
  tell({0, 1, 2, 3}, 1);
  publish_all();
  nodes[2].dead = true;
  lookup_plan plan{keys, answers};
  plan.follow(known(nodes[0].ring, 1));
  run(plan);
  plan.finish();
  EXPECT_EQ(hits(), keys_count);
}

TEST_F(lookup_plan_test, a_key_that_one_replica_lost_is_found_at_the_other) {
  tell({0, 1, 2}, 1);
  publish_all();
  std::vector<incarnation> living;
  for (std::size_t i = 0; i < 3; ++i)
    living.push_back(nodes[i].self.inc);
  nodes[1].shard.set_members({}); // Makes node 1's shard forget all records.
  nodes[1].shard.set_members(living);
  lookup_plan plan{keys, answers};
  plan.follow(known(nodes[0].ring, 1));
  run(plan);
  plan.finish();
  EXPECT_EQ(hits(), keys_count);
}

TEST_F(lookup_plan_test, owners_of_before_are_asked_while_the_new_ones_know_nothing) {
  tell({0, 1}, 1);
  publish_all();
  auto before = nodes[0].ring;
  tell({0, 1, 2, 3, 4, 5}, 2); // The new owners in this view have got no records.
  auto now = nodes[0].ring;
  lookup_plan without{keys, answers};
  without.follow(known(now, 2));
  run(without);
  without.finish();
  auto found_without = hits();
  EXPECT_LT(found_without, keys_count) << "of some keys both owners are new";
  lookup_plan plan{keys, answers};
  auto what = known(now, 2);
  what.before = {&before};
  plan.follow(what);
  run(plan);
  plan.finish();
  EXPECT_EQ(hits(), keys_count);
}

TEST_F(lookup_plan_test, a_client_with_an_old_view_learns_of_the_new_one_and_asks_again) {
  tell({0, 1}, 1);
  auto old_ring = nodes[0].ring;
  tell({0, 1, 2, 3, 4, 5}, 2);
  publish_all();
  lookup_plan plan{keys, answers};
  plan.follow(known(old_ring, 1));
  EXPECT_EQ(run(plan), 1u);
  ASSERT_TRUE(plan.is_behind());
  EXPECT_EQ(plan.newer(), (directory::view_number{1, 2}));
  EXPECT_LT(hits(), keys_count);
  plan.follow(known(nodes[0].ring, 2));
  EXPECT_FALSE(plan.is_behind());
  run(plan);
  plan.finish();
  EXPECT_EQ(hits(), keys_count);
}

TEST_F(lookup_plan_test, a_shard_that_is_behind_does_not_make_a_client_follow_it) {
  tell({0, 1}, 1);
  auto old = nodes[1].ring;
  tell({0, 1, 2, 3}, 2);
  publish_all();
  nodes[1].ring = discovery::hash_ring{};
  nodes[1].view = {1, 1};
  nodes[1].shard.set_members({});
  lookup_plan plan{keys, answers};
  plan.follow(known(nodes[0].ring, 2));
  run(plan);
  EXPECT_FALSE(plan.is_behind());
  plan.finish();
  EXPECT_EQ(hits(), keys_count);
}

TEST_F(lookup_plan_test, what_nobody_has_is_not_found_and_no_owner_is_asked_twice) {
  tell({0, 1, 2}, 1);
  lookup_plan plan{keys, answers};
  plan.follow(known(nodes[0].ring, 1));
  EXPECT_EQ(run(plan), replicas);
  plan.finish();
  for (const auto& answer : answers) {
    EXPECT_EQ(answer.status, page_status::not_found);
    EXPECT_EQ(answer.asked_count, replicas);
    EXPECT_NE(answer.asked[0], answer.asked[1]);
  }
}

TEST_F(lookup_plan_test, a_failure_after_an_answer_leaves_the_answer) {
  tell({0, 1, 2}, 1);
  nodes[1].dead = true;
  lookup_plan plan{keys, answers};
  plan.follow(known(nodes[0].ring, 1));
  run(plan);
  plan.finish();
  for (const auto& answer : answers)
    EXPECT_EQ(answer.status, page_status::not_found);
}

TEST_F(lookup_plan_test, says_why_where_nobody_has_answered) {
  tell({0, 1}, 1);
  nodes[0].dead = nodes[1].dead = true;
  lookup_plan plan{std::span(keys).first(1), std::span(answers).first(1)};
  plan.follow(known(nodes[0].ring, 1));
  run(plan);
  plan.finish();
  EXPECT_EQ(answers[0].status, page_status::unreachable);
  lookup_plan alone{keys, answers};
  alone.follow(known(nodes[0].ring, 1));
  EXPECT_TRUE(alone.next_round([](node_id) { return use::left_alone; }).empty());
  alone.finish();
  EXPECT_EQ(answers[0].status, page_status::breaker_open);
}

TEST_F(lookup_plan_test, only_the_owner_that_is_asked_now_has_its_breaker_tried) {
  tell({0, 1, 2}, 1);
  lookup_plan plan{std::span(keys).first(1), std::span(answers).first(1)};
  plan.follow(known(nodes[0].ring, 1));
  int tried = 0;
  const auto shares = plan.next_round([&](node_id) {
    ++tried;
    return use::yes;
  });
  ASSERT_EQ(shares.size(), 1u);
  EXPECT_EQ(tried, 1);
}

TEST_F(lookup_plan_test, the_next_owner_is_asked_only_once_the_first_one_is_overdue) {
  tell({0, 1, 2}, 1);
  lookup_plan plan{std::span(keys).first(1), std::span(answers).first(1)};
  plan.follow(known(nodes[0].ring, 1));
  auto first = plan.next_round(any);
  ASSERT_EQ(first.size(), 1u);
  EXPECT_TRUE(plan.next_round(any).empty());
  plan.set_overdue(first[0]);
  const auto second = plan.next_round(any);
  ASSERT_EQ(second.size(), 1u);
  EXPECT_NE(second[0].owner, first[0].owner);
}

TEST_F(lookup_plan_test, an_overdue_answer_changes_nothing_that_was_found) {
  tell({0, 1, 2}, 1);
  publish_all();
  lookup_plan plan{std::span(keys).first(1), std::span(answers).first(1)};
  plan.follow(known(nodes[0].ring, 1));
  auto late = plan.next_round(any);
  plan.set_overdue(late[0]);
  const auto second = plan.next_round(any);
  EXPECT_TRUE(
      plan.answered(second[0], answer_of(nodes[ids.at(second[0].owner)], second[0].request)));
  EXPECT_EQ(plan.worth_of(late[0]), lookup_plan::worth::nothing);
  std::string nothing;
  directory::append_answer(nothing, {});
  EXPECT_TRUE(plan.answered(late[0], nothing));
  EXPECT_EQ(answers[0].status, page_status::hit);
  EXPECT_GT(answers[0].count, 0);
}

TEST_F(lookup_plan_test, an_overdue_answer_is_taken_where_others_had_found_nothing) {
  tell({0, 1, 2}, 1);
  lookup_plan plan{std::span(keys).first(1), std::span(answers).first(1)};
  plan.follow(known(nodes[0].ring, 1));
  auto late = plan.next_round(any);
  plan.set_overdue(late[0]);
  EXPECT_EQ(plan.worth_of(late[0]), lookup_plan::worth::only_answer);
  const auto second = plan.next_round(any);
  EXPECT_TRUE(
      plan.answered(second[0], answer_of(nodes[ids.at(second[0].owner)], second[0].request)));
  EXPECT_EQ(plan.worth_of(late[0]), lookup_plan::worth::another_opinion);
  publish_to(ids.at(late[0].owner), keys[0]);
  EXPECT_TRUE(plan.answered(late[0], answer_of(nodes[ids.at(late[0].owner)], late[0].request)));
  EXPECT_EQ(answers[0].status, page_status::hit);
}

TEST_F(lookup_plan_test, an_owner_that_is_asked_unwillingly_is_the_last_one) {
  tell({0, 1, 2}, 1);
  lookup_plan plan{std::span(keys).first(1), std::span(answers).first(1)};
  plan.follow(known(nodes[0].ring, 1));
  node_id first;
  const auto shares = plan.next_round([&](node_id id) {
    return std::exchange(first, id) == node_id{} ? use::unwillingly : use::yes;
  });
  ASSERT_EQ(shares.size(), 1u);
  EXPECT_EQ(shares[0].owner, first) << "the second owner of the key, which is willing";
  lookup_plan only{std::span(keys).first(1), std::span(answers).first(1)};
  only.follow(known(nodes[0].ring, 1));
  EXPECT_EQ(only.next_round([](node_id) { return use::unwillingly; }).size(), 1u);
}

TEST_F(lookup_plan_test, a_record_of_a_process_that_is_no_member_is_not_believed) {
  tell({0, 1, 2}, 1);
  publish_all();
  lookup_plan plan{keys, answers};
  auto what = known(nodes[0].ring, 1);
  what.is_member = [&](const auto& at) { return at.holder != nodes[0].self.inc; };
  plan.follow(what);
  run(plan);
  plan.finish();
  EXPECT_EQ(hits(), 0u);
}

TEST_F(lookup_plan_test, a_malformed_answer_is_a_failure_and_the_next_owner_is_asked) {
  tell({0, 1, 2}, 1);
  publish_all();
  lookup_plan plan{std::span(keys).first(1), std::span(answers).first(1)};
  plan.follow(known(nodes[0].ring, 1));
  auto first = plan.next_round(any);
  EXPECT_FALSE(plan.answered(first[0], "\x03"));
  auto second = plan.next_round(any);
  ASSERT_EQ(second.size(), 1u);
  EXPECT_NE(second[0].owner, first[0].owner);
  EXPECT_TRUE(
      plan.answered(second[0], answer_of(nodes[ids.at(second[0].owner)], second[0].request)));
  EXPECT_EQ(answers[0].status, page_status::hit);
}

} // namespace
} // namespace peercache::client
