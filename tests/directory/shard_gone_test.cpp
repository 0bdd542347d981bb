// Tests of records of members that one view lacks and a later view has again.

#include "directory/shard.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace peercache::directory::shard_gone_test {
namespace {

constexpr incarnation alice{1, 1};
constexpr incarnation bob{2, 2};
constexpr incarnation carol{3, 3};

class shard_gone_test : public testing::Test {
protected:
  shard_gone_test() { subject.follow(std::array{alice, bob, carol}); }

  static page_location location(incarnation holder, std::uint64_t gen, tier where = tier::memory) {
    page_location place;
    place.node = {holder.low};
    place.holder = holder;
    place.gen = {gen};
    place.slot = {static_cast<std::uint32_t>(gen)};
    place.length_bytes = 4096;
    place.where = where;
    return place;
  }
  publish_outcome publish(const page_location& place, publish_mode mode = publish_mode::always) {
    return subject.publish(key, place, mode);
  }
  std::vector<page_location> known() const {
    std::vector<page_location> out(limits::locations_per_key_max);
    out.resize(subject.lookup(key, out));
    return out;
  }
  std::size_t walked() const {
    std::size_t count = 0;
    subject.walk(0, 100, [&](const page_key&, const page_location&) { ++count; });
    return count;
  }

  shard subject;
  page_key key;
};

TEST_F(shard_gone_test, who_is_back_has_its_records_again) {
  publish(location(alice, 2));
  subject.follow(std::array{bob, carol});
  EXPECT_TRUE(known().empty());
  EXPECT_EQ(walked(), 0u) << "nobody is given a hidden record";
  subject.follow(std::array{alice, bob, carol});
  EXPECT_EQ(known(), std::vector{location(alice, 2)});
  EXPECT_EQ(subject.forget(0, 100).gone, 0u);
  EXPECT_EQ(known().size(), 1u);
}

TEST_F(shard_gone_test, who_went_while_records_are_forgotten_is_forgotten_next_time) {
  page_key other;
  other.bytes[0] = 1;
  publish(location(alice, 2));
  subject.publish(other, location(alice, 2), publish_mode::always);
  EXPECT_EQ(subject.forget(0, 1).next, 1u);
  subject.follow(std::array{bob, carol});
  const auto rest = subject.forget(1, 1);
  EXPECT_EQ(rest.gone, 1u);
  EXPECT_EQ(rest.next, 0u);
  EXPECT_EQ(subject.locations(), 1u);
  subject.follow(std::array{alice, bob, carol});
  EXPECT_EQ(known(), std::vector{location(alice, 2)}) << "alice was not forgotten before it";
  subject.follow(std::array{bob, carol});
  EXPECT_EQ(subject.forget(0, 2).gone, 1u);
}

TEST_F(shard_gone_test, whose_last_record_is_forgotten_leaves_the_table_before_the_walk_ends) {
  page_key other;
  other.bytes[0] = 1;
  publish(location(alice, 2));
  subject.publish(other, location(bob, 2), publish_mode::always);
  subject.follow(std::array{bob, carol});
  EXPECT_NE(subject.digest_of(alice), nullptr);
  EXPECT_EQ(subject.forget(0, 1).next, 1u);
  EXPECT_EQ(subject.digest_of(alice), nullptr);
  EXPECT_NE(subject.digest_of(bob), nullptr);
}

TEST_F(shard_gone_test, a_slice_without_places_would_be_a_walk_without_end) {
  publish(location(alice, 2));
  EXPECT_DEATH(subject.forget(0, 0), "places > 0");
}

TEST_F(shard_gone_test, who_is_away_for_long_is_forgotten) {
  publish(location(alice, 2));
  publish(location(bob, 2));
  subject.follow(std::array{bob});
  EXPECT_EQ(subject.forget(0, 100).gone, 1u);
  EXPECT_EQ(subject.locations(), 1u);
  subject.follow(std::array{alice, bob});
  EXPECT_EQ(known(), std::vector{location(bob, 2)});
}

TEST_F(shard_gone_test, who_is_gone_publishes_nothing_and_may_withdraw) {
  publish(location(alice, 2));
  subject.follow(std::array{bob});
  EXPECT_EQ(publish(location(alice, 4)), publish_outcome::unknown_holder);
  EXPECT_TRUE(subject.withdraw(key, alice, {2}));
  subject.follow(std::array{alice, bob});
  EXPECT_TRUE(known().empty());
}

TEST_F(shard_gone_test, a_hidden_record_makes_no_page_a_duplicate) {
  publish(location(alice, 2));
  subject.follow(std::array{bob});
  EXPECT_EQ(publish(location(bob, 2), publish_mode::if_absent), publish_outcome::accepted);
}

TEST_F(shard_gone_test, hidden_records_make_room_for_others) {
  std::vector<incarnation> holders;
  for (std::uint64_t i = 10; i < 10 + limits::locations_per_key_max; ++i)
    holders.push_back({i, i});
  holders.push_back(bob);
  subject.follow(holders);
  for (std::size_t i = 0; i < limits::locations_per_key_max; ++i)
    EXPECT_EQ(publish(location(holders[i], 2)), publish_outcome::accepted);
  EXPECT_EQ(publish(location(bob, 2, tier::disk)), publish_outcome::duplicate);
  holders.erase(holders.begin());
  subject.follow(holders);
  EXPECT_EQ(publish(location(bob, 2, tier::disk)), publish_outcome::accepted);
  EXPECT_EQ(known().size(), limits::locations_per_key_max);
  EXPECT_EQ(known().back().holder, bob);
}

TEST_F(shard_gone_test, many_views_in_a_row_fill_no_table) {
  constexpr std::size_t members = limits::members_max;
  std::uint64_t next = 100;
  for (int views = 0; views < 5; ++views) {
    std::vector<incarnation> holders;
    for (std::size_t i = 0; i < members; ++i)
      holders.push_back({next + i, next + i});
    next += members;
    subject.follow(holders);
    EXPECT_EQ(publish(location(holders.front(), 2)), publish_outcome::accepted);
    EXPECT_EQ(known().size(), 1u);
    EXPECT_LE(subject.locations(), 3u);
  }
}

} // namespace
} // namespace peercache::directory::shard_gone_test
