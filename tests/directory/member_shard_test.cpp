#include "directory/member_shard.hpp"

#include "common/key_epoch.hpp"

#include <algorithm>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <vector>

namespace peercache::directory::member_shard_test {
namespace {

using namespace std::chrono_literals;

/// The shard of the first of two members, `here` and `there`; each key has one owner.
class member_shard_test : public testing::Test {
protected:
  using afterwards = member_shard::afterwards;

  member_shard_test() {
    for (const auto* name : {"here", "there"}) {
      discovery::member member;
      member.name = name;
      member.id = node_id_of(name);
      member.inc = {1, members.size() + 1};
      members.push_back(member);
    }
    options.self = members[0].id;
    options.replicas = 1;
    subject = member_shard(options);
  }

  member_shard::taken follow(std::uint64_t version, const std::vector<discovery::member>& in) {
    auto view = std::make_shared<discovery::view>();
    view->term = 1;
    view->version = version;
    view->members = in;
    std::ranges::sort(view->members, {}, &discovery::member::id);
    auto ring = std::make_shared<const discovery::hash_ring>(view->members);
    stamp = view->stamp();
    return subject.follow({std::move(view), std::move(ring)}, now);
  }
  /// Returns a key that member number `owner` owns in the view of both members.
  page_key key_of(std::size_t owner) const {
    const discovery::hash_ring ring(members);
    for (int i = 0;; ++i)
      if (const auto key = key_space{}.key_of(std::to_string(i));
          ring.owns(members[owner].id, key, 1))
        return key;
  }
  std::string record(const page_key& key, std::size_t holder = 1) const {
    page_location place;
    place.node = members[holder].id;
    place.holder = members[holder].inc;
    place.gen = {2};
    place.length_bytes = 4096;
    std::string batch;
    append_publish(batch, {key, place, publish_mode::always});
    return batch;
  }
  publish_outcome publish(const page_key& key, const view_number& known = {}) {
    return static_cast<publish_outcome>(subject.publish(record(key), known)->at(0));
  }
  /// Looks this key up. Returns how many keys (0 or 1) the shard says that other members own.
  std::uint64_t foreign(const page_key& key) const {
    std::string keys;
    append_lookup(keys, key);
    std::uint64_t count = 0;
    EXPECT_TRUE(subject.look_up(keys, count));
    return count;
  }
  void begin_to_give(afterwards then, std::chrono::milliseconds within = 1s) {
    subject.begin_to_give(then, now + within,
                          [this](const handed_over& all) { gave.push_back(all.given); });
  }
  /// Publishes records of pages of both members, 20 each, under keys that this member owns, and
  /// begins to drain: the first record is on its way.
  void begin_to_drain_with_records() {
    options.giving.in_flight_max = 1;
    options.giving.batch_records = 1;
    options.giving.places_per_step = 1;
    subject = member_shard(options);
    follow(1, members);
    const discovery::hash_ring ring(members);
    for (std::size_t i = 0, published = 0; published < 40; ++i)
      if (const auto key = key_space{}.key_of(std::to_string(i));
          ring.owns(members[0].id, key, 1)) {
        ASSERT_TRUE(subject.publish(record(key, published++ % 2)));
      }
    begin_to_give(afterwards::drains);
    ASSERT_EQ(subject.give(now).size(), 1u);
  }
  /// Gives the other records, one after another. Returns how many of them are of pages of this
  /// member.
  std::size_t own_records_given() {
    std::size_t own = 0;
    while (!subject.end_giving()) {
      subject.given(accepted);
      for (const auto& order : subject.give(now)) {
        publish_reader reader(order.records);
        for (publish_record each; reader.next(each);)
          own += each.location.holder == members[0].inc ? 1 : 0;
      }
    }
    return own;
  }

  /// The outcomes of a batch of one record that its receiver took.
  const std::string accepted{static_cast<char>(publish_outcome::accepted)};
  std::vector<discovery::member> members;
  member_shard::options options;
  member_shard subject;
  member_shard::time_point now{1h};
  discovery::view_stamp stamp; ///< Stamp of the last view.
  std::vector<std::uint64_t> gave;
};

TEST_F(member_shard_test, a_publisher_with_a_later_view_is_told_that_this_member_is_behind) {
  follow(2, members);
  EXPECT_EQ(publish(key_of(0), {1, 2}), publish_outcome::accepted);
  EXPECT_EQ(publish(key_of(0), {1, 3}), publish_outcome::behind);
  EXPECT_EQ(publish(key_of(0)), publish_outcome::accepted);
  EXPECT_EQ(subject.records().locations(), 1u);
}

TEST_F(member_shard_test, a_batch_of_a_later_view_or_that_needs_a_sweep_is_not_published_at_once) {
  follow(2, members);
  const auto own = record(key_of(0)), foreign_one = record(key_of(1));
  EXPECT_FALSE(subject.publishes_at_once(own, {1, 2})) << "there is no memory for records yet";
  publish(key_of(0));
  EXPECT_TRUE(subject.publishes_at_once(own, {1, 2}));
  EXPECT_FALSE(subject.publishes_at_once(own, {1, 3}));
  EXPECT_FALSE(subject.publishes_at_once(foreign_one, {1, 2}));
  EXPECT_TRUE(subject.makes_sweep_due(foreign_one));
  EXPECT_TRUE(subject.publishes_at_once(foreign_one, {1, 2})) << "the sweep is due already";
}

/// An index that grows is made anew in one go, which takes a while when it is large.
TEST_F(member_shard_test, what_may_make_the_shard_grow_is_not_published_at_once) {
  follow(2, {members[0], members[1]});
  std::size_t refused = 0;
  for (int i = 0; i < 10'000; ++i) {
    const auto batch = record(key_space{}.key_of(std::to_string(i)));
    const auto units = subject.records().memory().units();
    const bool at_once = subject.publishes_at_once(batch, {});
    subject.makes_sweep_due(batch);
    ASSERT_EQ(subject.publish(batch)->at(0), static_cast<char>(publish_outcome::accepted));
    ASSERT_TRUE(!at_once || subject.records().memory().units() == units) << i;
    refused += at_once ? 0 : 1;
  }
  EXPECT_LT(refused, 30u) << "most records find memory";
}

TEST_F(member_shard_test, a_member_in_no_view_owns_nothing) {
  EXPECT_EQ(foreign(key_of(0)), 1u);
  follow(1, members);
  EXPECT_EQ(foreign(key_of(0)), 0u);
  EXPECT_EQ(foreign(key_of(1)), 1u);
  publish(key_of(0));
  EXPECT_EQ(subject.leave(stamp), 1u);
  EXPECT_EQ(foreign(key_of(0)), 1u);
  EXPECT_EQ(follow(1, members), member_shard::taken::no);
  EXPECT_EQ(foreign(key_of(0)), 1u);
  EXPECT_EQ(follow(2, members), member_shard::taken::anew);
  EXPECT_EQ(foreign(key_of(0)), 0u);
}

TEST_F(member_shard_test, forgets_a_while_after_the_last_view) {
  EXPECT_EQ(follow(1, members), member_shard::taken::anew);
  publish(key_of(0));
  EXPECT_FALSE(subject.makes_sweep_due(record(key_of(0))));
  now += options.grace;
  EXPECT_TRUE(subject.makes_sweep_due(record(key_of(1))));
  EXPECT_FALSE(subject.makes_sweep_due(record(key_of(1)))) << "it is due already";
  publish(key_of(1));
  EXPECT_EQ(follow(1, members), member_shard::taken::same);
  EXPECT_EQ(follow(2, {members[0]}), member_shard::taken::anew);
  now += options.grace - 1ms;
  EXPECT_EQ(subject.sweep(now).gone, 0u) << "the last view is too young";
  now += 1ms;
  std::vector<page_key> gone;
  EXPECT_EQ(subject.sweep(now, [&](const page_key& key) { gone.push_back(key); }).gone, 2u);
  EXPECT_EQ(gone.size(), 2u);
}

TEST_F(member_shard_test, forgets_keys_of_others_unless_it_is_in_no_view) {
  follow(1, members);
  publish(key_of(1));
  follow(2, {members[1]});
  now += options.grace;
  EXPECT_EQ(subject.sweep(now).foreign, 0u);
  follow(3, members);
  now += options.grace;
  EXPECT_EQ(subject.sweep(now).foreign, 1u);
}

TEST_F(member_shard_test, is_used_by_others_between_two_slices_of_a_sweep) {
  options.sweep_slice = 2;
  subject = member_shard(options);
  follow(1, members);
  std::vector<page_key> foreign_keys;
  const discovery::hash_ring ring(members);
  for (int i = 0; foreign_keys.size() < 6; ++i)
    if (const auto key = key_space{}.key_of(std::to_string(i)); ring.owns(members[1].id, key, 1))
      publish(foreign_keys.emplace_back(key));
  now += options.grace;
  EXPECT_TRUE(subject.makes_sweep_due(record(foreign_keys[0])));
  const auto first = subject.sweep(now);
  EXPECT_EQ(first.foreign, 2u);
  EXPECT_TRUE(first.more);
  // Takes the place of a record that the slice has forgotten.
  EXPECT_EQ(publish(foreign_keys[0]), publish_outcome::accepted);
  EXPECT_TRUE(subject.makes_sweep_due(record(foreign_keys[0]))) << "the sweep has passed it";
  EXPECT_TRUE(subject.sweep(now).more);
  EXPECT_FALSE(subject.sweep(now).more);
  EXPECT_EQ(subject.records().locations(), 1u);
  while (subject.sweep(now).more) {
  }
  EXPECT_EQ(subject.records().locations(), 0u);
}

TEST_F(member_shard_test, a_view_ends_the_sweep_that_is_under_way) {
  options.sweep_slice = 1;
  subject = member_shard(options);
  follow(1, members);
  publish(key_of(0));
  publish(key_of(1));
  now += options.grace;
  EXPECT_TRUE(subject.sweep(now).more);
  follow(2, {members[0]});
  EXPECT_FALSE(subject.sweep(now).more) << "who is gone may come back";
  now += options.grace;
  EXPECT_TRUE(subject.sweep(now).more) << "the next sweep goes once around from there";
  EXPECT_EQ(subject.records().locations(), 1u);
  EXPECT_FALSE(subject.sweep(now).more);
  EXPECT_EQ(subject.records().locations(), 0u);
}

TEST_F(member_shard_test, views_that_end_each_sweep_keep_no_record_for_ever) {
  options.sweep_slice = 1;
  subject = member_shard(options);
  follow(1, members);
  constexpr std::uint64_t records = 4;
  for (std::uint64_t i = 0; i < records; ++i)
    publish(key_space{}.key_of(std::to_string(i)));
  for (std::uint64_t i = 0; i < records; ++i) {
    follow(2 + i, {members[0]});
    EXPECT_FALSE(subject.sweep(now).more) << "the view ends the walk that is under way";
    now += options.grace;
    EXPECT_EQ(subject.sweep(now).gone, 1u) << i;
  }
  EXPECT_EQ(subject.records().locations(), 0u);
  EXPECT_EQ(subject.records().digest_of(members[1].inc), nullptr) << "no sweep came to its end";
}

TEST_F(member_shard_test, makes_a_sweep_due_again_after_the_last_one) {
  follow(1, members);
  EXPECT_TRUE(subject.makes_sweep_due(record(key_of(1))));
  subject.sweep(now);
  EXPECT_TRUE(subject.makes_sweep_due(record(key_of(1)))) << "also after one that came too early";
  now += options.grace;
  subject.sweep(now);
  EXPECT_TRUE(subject.makes_sweep_due(record(key_of(1))));
}

TEST_F(member_shard_test, gives_its_records_once_to_all_who_wait) {
  begin_to_give(afterwards::leaves);
  EXPECT_EQ(gave, std::vector<std::uint64_t>{0}) << "it is in no view";
  follow(1, members);
  publish(key_of(0));
  begin_to_give(afterwards::drains);
  auto orders = subject.give(now);
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_EQ(orders[0].to, members[1].id);
  begin_to_give(afterwards::leaves);
  EXPECT_TRUE(subject.give(now).empty());
  EXPECT_FALSE(subject.end_giving()) << "the answer is on its way";
  std::string withdrawal;
  append_withdraw(withdrawal, {key_of(0), members[1].inc, {2}});
  EXPECT_EQ(subject.forward(withdrawal).size(), 1u);
  subject.given(accepted);
  EXPECT_EQ(subject.end_giving(), (handed_over{1, 0}));
  EXPECT_EQ(gave, (std::vector<std::uint64_t>{0, 1, 1}));
  EXPECT_FALSE(subject.gives());
  EXPECT_TRUE(subject.forward(withdrawal).empty());
}

TEST_F(member_shard_test, a_member_that_leaves_while_it_gives_leaves_its_own_records_out) {
  begin_to_drain_with_records();
  begin_to_give(afterwards::leaves);
  EXPECT_LE(own_records_given(), 1u) << "one may have been ready before";
  ASSERT_EQ(gave.size(), 2u);
  EXPECT_GE(gave[0], 20u);
  EXPECT_EQ(gave[1], gave[0]);
}

TEST_F(member_shard_test, a_member_that_drains_gives_its_own_records_too) {
  begin_to_drain_with_records();
  begin_to_give(afterwards::drains);
  EXPECT_GE(own_records_given(), 19u);
}

TEST_F(member_shard_test, a_member_that_leaves_gives_for_as_long_as_it_said_when_it_left) {
  for (const auto within : {500ms, 2000ms}) {
    begin_to_drain_with_records();
    begin_to_give(afterwards::leaves, within);
    now += 1500ms;
    subject.given(accepted);
    EXPECT_EQ(subject.give(now).empty(), within < 1500ms);
  }
}

TEST_F(member_shard_test, a_drain_does_not_take_back_that_a_member_leaves) {
  begin_to_drain_with_records();
  begin_to_give(afterwards::leaves);
  begin_to_give(afterwards::drains);
  EXPECT_LE(own_records_given(), 1u);
}

/// By which view readers on other hosts may read the shard.
view_number told(member_shard& of) {
  of.tell_remote_readers();
  auto search = of.records().reader();
  EXPECT_TRUE(search.begin());
  return search.header().by;
}

TEST_F(member_shard_test, remote_readers_are_told_the_view_that_look_ups_are_answered_by) {
  EXPECT_EQ(told(subject), view_number{});
  follow(3, members);
  EXPECT_EQ(told(subject), (view_number{1, 3}));
  subject.leave({1, 4});
  EXPECT_EQ(told(subject), view_number{}) << "they ask this node, which knows why it left";
}

/// Whether readers on other hosts have to ask this member's node.
bool is_forbidden(member_shard& of) {
  auto search = of.records().reader();
  EXPECT_TRUE(search.begin());
  return search.header().forbidden;
}

TEST_F(member_shard_test, remote_readers_ask_from_a_clear_until_no_old_record_is_left) {
  auto block = std::make_unique<storage::epoch_block>();
  options.epochs = storage::epoch_table(*block);
  subject = member_shard(options);
  follow(3, members);
  const auto old = key_of(0);
  ASSERT_EQ(publish(old), publish_outcome::accepted);
  subject.tell_remote_readers();
  EXPECT_FALSE(is_forbidden(subject));
  options.epochs.raise(space_of(old), 7);
  subject.records().forbid_remote_reads(); // The clearing does so at once, from its own thread.
  EXPECT_TRUE(is_forbidden(subject));
  subject.tell_remote_readers();
  EXPECT_TRUE(is_forbidden(subject));
  EXPECT_EQ(subject.forget_old(), 1u);
  subject.tell_remote_readers();
  EXPECT_FALSE(is_forbidden(subject));
  EXPECT_EQ(subject.records().locations(), 0u);
  options.epochs.close();
  subject.tell_remote_readers();
  EXPECT_TRUE(is_forbidden(subject)) << "a closed node may miss clears";
}

TEST_F(member_shard_test, a_record_of_a_cleared_page_is_not_taken_behind_the_clear) {
  auto block = std::make_unique<storage::epoch_block>();
  options.epochs = storage::epoch_table(*block);
  subject = member_shard(options);
  follow(3, members);
  const auto old = key_of(0);
  options.epochs.raise(space_of(old), 7);
  EXPECT_EQ(subject.forget_old(), 0u);
  EXPECT_EQ(publish(old), publish_outcome::stale);
  auto fresh = old;
  set_epoch(fresh, 7);
  EXPECT_EQ(publish(fresh), publish_outcome::accepted);
}

} // namespace
} // namespace peercache::directory::member_shard_test
