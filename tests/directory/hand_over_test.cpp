#include "directory/hand_over.hpp"

#include "directory/shard_batch.hpp"
#include "directory/wire.hpp"

#include <algorithm>
#include <gtest/gtest.h>

namespace peercache::directory {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t replicas = 2;
constexpr std::size_t keys_count = 3000;
const hand_over::time_point start{1h};

std::vector<discovery::member> members_named(std::size_t count) {
  std::vector<discovery::member> members(count);
  for (std::size_t i = 0; i < count; ++i) {
    members[i].name = "node" + std::to_string(i);
    members[i].id = node_id_of(members[i].name);
    members[i].inc = {1, i + 1};
  }
  return members;
}

/// A hand-over from the shard of node 0, which has records of pages of nodes 0 and 1, to the empty
/// shards of nodes 1 to 3.
class hand_over_test : public testing::Test {
protected:
  void SetUp() override {
    for (const auto& m : all)
      living.push_back(m.inc);
    options.self = all[0].id;
    options.replicas = replicas;
    options.until = start + 1s;
    source.set_members(living);
    for (std::size_t i = 0; i < keys_count; ++i) {
      auto key = key_space{}.key_of(std::to_string(i));
      if (!before.owns(options.self, key, replicas))
        continue;
      const auto& producer = all[i % 2];
      page_location location{.node = producer.id,
                             .holder = producer.inc,
                             .gen = {2},
                             .checksum = i,
                             .slot = {},
                             .length_bytes = 4096};
      ASSERT_EQ(source.publish(key, location, publish_mode::always), publish_outcome::accepted);
      keys.push_back(key);
    }
  }

  /// Carries out the hand-over's orders until none are left. Returns the largest number of orders
  /// that were open at the same time.
  std::size_t run(hand_over& job) {
    std::size_t most = 0;
    std::deque<hand_over::order> on_their_way;
    for (;;) {
      for (auto& order : job.next(source, start))
        on_their_way.push_back(std::move(order));
      most = std::max(most, on_their_way.size());
      if (on_their_way.empty())
        return most;
      auto& target = targets.try_emplace(on_their_way.front().to).first->second;
      target.set_members(living);
      auto outcomes = publish_batch(target, on_their_way.front().records);
      EXPECT_TRUE(outcomes);
      job.answered(*outcomes);
      on_their_way.pop_front();
    }
  }

  std::vector<discovery::member> all = members_named(4);
  std::vector<incarnation> living;
  discovery::hash_ring before{all};
  discovery::hash_ring after{std::span(all).subspan(1)};
  shard source;
  std::map<node_id, shard> targets;
  std::vector<page_key> keys;
  hand_over::options options;
};

TEST_F(hand_over_test, every_new_owner_has_its_records_and_nobody_gets_others) {
  hand_over job(options, before, after);
  EXPECT_LE(run(job), options.in_flight_max);
  EXPECT_TRUE(job.done());
  std::uint64_t expected = 0;
  std::size_t held = 0;
  for (const auto& [id, shard] : targets)
    held += shard.locations();
  for (const auto& key : keys)
    for (auto& [id, shard] : targets) {
      std::array<page_location, 4> found;
      auto is_new = after.owns(id, key, replicas) && !before.owns(id, key, replicas);
      EXPECT_EQ(shard.lookup(key, found), is_new ? 1u : 0u);
      expected += is_new ? 1 : 0;
    }
  EXPECT_EQ(expected, keys.size()) << "one owner takes the place of the one that goes";
  EXPECT_EQ(held, expected);
  EXPECT_EQ(job.so_far(), (handed_over{expected, 0}));
}

TEST_F(hand_over_test, what_goes_with_its_node_is_left_out) {
  options.leaving = all[0].inc;
  hand_over job(options, before, after);
  run(job);
  for (const auto& [id, shard] : targets)
    shard.walk(0, 1u << 20, [&](const page_key&, const page_location& location) {
      EXPECT_NE(location.holder, all[0].inc);
    });
  EXPECT_GT(job.so_far().given, 0u);
  EXPECT_EQ(job.so_far().left, 0u);
}

TEST_F(hand_over_test, at_the_end_of_its_time_nothing_more_is_sent) {
  options.batch_records = 16;
  hand_over job(options, before, after);
  auto first = job.next(source, start);
  EXPECT_EQ(first.size(), options.in_flight_max);
  EXPECT_TRUE(job.next(source, start).empty()) << "no credit left";
  job.answered(std::string(16, static_cast<char>(publish_outcome::accepted)));
  EXPECT_TRUE(job.next(source, options.until).empty());
  EXPECT_FALSE(job.done()) << "three are on their way";
  for (int i = 0; i < 3; ++i)
    job.failed(16);
  EXPECT_TRUE(job.done());
  EXPECT_EQ(job.so_far(), (handed_over{16, keys.size() - 16})) << "all others are left";
}

TEST_F(hand_over_test, without_time_all_records_are_left_that_another_node_is_to_own) {
  hand_over job(options, before, after);
  EXPECT_TRUE(job.next(source, options.until).empty());
  EXPECT_TRUE(job.done());
  EXPECT_EQ(job.so_far(), (handed_over{0, keys.size()}));
}

TEST_F(hand_over_test, without_a_key_that_gets_another_owner_the_shard_is_not_walked) {
  hand_over outside(options, after, after);
  EXPECT_TRUE(outside.done()) << "its node owns no keys";
  hand_over alone(options, before, {});
  EXPECT_TRUE(alone.done()) << "there is nobody to give them to";
  for (auto* job : {&outside, &alone}) {
    EXPECT_TRUE(job->next(source, start).empty());
    EXPECT_EQ(job->so_far(), handed_over{});
  }
}

TEST_F(hand_over_test, only_what_a_new_owner_took_counts_as_given) {
  options.batch_records = 6;
  options.in_flight_max = 1;
  hand_over job(options, before, after);
  ASSERT_EQ(job.next(source, start).size(), 1u);
  std::string outcomes;
  for (const auto each :
       {publish_outcome::accepted, publish_outcome::duplicate, publish_outcome::stale,
        publish_outcome::refused, publish_outcome::unknown_holder, publish_outcome::behind})
    outcomes += static_cast<char>(each);
  EXPECT_EQ(job.answered(outcomes), 1u);
  EXPECT_EQ(job.so_far(), (handed_over{1, 3})) << "an owner that knows better lacks nothing";
}

TEST_F(hand_over_test, an_empty_shard_is_done_at_once) {
  shard empty;
  hand_over job(options, before, after);
  EXPECT_TRUE(job.next(empty, start).empty());
  EXPECT_TRUE(job.done());
}

TEST_F(hand_over_test, withdrawals_follow_the_records_that_went) {
  hand_over job(options, before, after);
  run(job);
  std::string batch;
  for (std::size_t i = 0; i < keys.size(); i += 2)
    for (auto producer : {0, 1})
      append_withdraw(batch, {keys[i], all[producer].inc, {2}});
  for (const auto& order : job.forward(batch))
    ASSERT_TRUE(withdraw_batch(targets.at(order.to), order.records));
  std::size_t held = 0;
  for (const auto& [id, shard] : targets)
    held += shard.locations();
  EXPECT_EQ(held, keys.size() / 2);
}

} // namespace
} // namespace peercache::directory
