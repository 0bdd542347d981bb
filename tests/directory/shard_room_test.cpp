#include "directory/shard.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

// Tests which location gives way when a key has as many as it may have, and which locations make a
// put a duplicate.
namespace peercache::directory::shard_room_test {
namespace {

page_key key() {
  return key_space{}.key_of("k");
}

incarnation number(std::uint64_t i) {
  return {i, i};
}

page_location location(std::uint64_t of, tier where = tier::memory, bool mirrored = false) {
  page_location made{.node = {of}, .holder = number(of), .gen = {2}, .checksum = 1, .slot = {1}};
  made.length_bytes = 4096;
  made.where = where;
  made.mirrored = mirrored;
  return made;
}

class shard_room : public testing::Test {
protected:
  void SetUp() override {
    std::vector<incarnation> members;
    for (std::uint64_t i = 1; i <= 9; ++i)
      members.push_back(number(i));
    subject.set_members(members);
  }

  publish_outcome publish(const page_location& where, publish_mode mode = publish_mode::always) {
    return subject.publish(key(), where, mode);
  }

  bool knows(std::uint64_t i) const {
    std::array<page_location, limits::locations_per_key_max> told;
    const auto found = std::span(told).first(subject.lookup(key(), told));
    return std::any_of(found.begin(), found.end(),
                       [i](const page_location& l) { return l.holder == number(i); });
  }

  shard subject;
};

page_location longer(std::uint64_t of) {
  auto made = location(of);
  made.length_bytes = 8192;
  return made;
}

TEST_F(shard_room, a_page_of_another_length_is_no_duplicate) {
  publish(location(1));
  EXPECT_EQ(publish(longer(2), publish_mode::if_absent), publish_outcome::accepted);
  EXPECT_EQ(publish(longer(3), publish_mode::if_absent), publish_outcome::duplicate);
  EXPECT_TRUE(knows(1));
  EXPECT_TRUE(knows(2));
}

TEST_F(shard_room, a_page_in_memory_takes_the_place_of_the_oldest_on_disk) {
  publish(location(1));
  for (std::uint64_t i : {2, 3, 4})
    publish(location(i, tier::disk));
  EXPECT_EQ(publish(location(5)), publish_outcome::accepted);
  EXPECT_FALSE(knows(2));
  EXPECT_TRUE(knows(5));
  EXPECT_EQ(subject.locations(), 4u);
}

TEST_F(shard_room, a_page_in_memory_takes_the_place_of_a_mirror) {
  publish(location(1, tier::memory, /*mirrored=*/true));
  for (std::uint64_t i : {2, 3, 4})
    publish(location(i));
  EXPECT_EQ(publish(location(5)), publish_outcome::accepted);
  EXPECT_FALSE(knows(1));
  EXPECT_EQ(publish(location(6)), publish_outcome::duplicate);
}

TEST_F(shard_room, a_mirror_takes_no_place) {
  publish(location(1, tier::disk)); // Kept: a page on disk may be the only durable copy.
  for (std::uint64_t i : {2, 3, 4})
    publish(location(i, tier::memory, true));
  EXPECT_EQ(publish(location(5, tier::memory, true)), publish_outcome::duplicate);
  EXPECT_TRUE(knows(1));
}

TEST_F(shard_room, who_is_out_of_reach_makes_no_put_a_duplicate) {
  publish(location(1));
  EXPECT_EQ(publish(location(2), publish_mode::if_absent), publish_outcome::duplicate);
  subject.set_out_of_reach(std::array{number(1)});
  EXPECT_EQ(publish(location(2), publish_mode::if_absent), publish_outcome::accepted);
  EXPECT_TRUE(knows(1)) << "another reader may reach it";
  EXPECT_EQ(publish(location(3), publish_mode::if_absent), publish_outcome::duplicate);
  subject.set_out_of_reach(std::array{number(2)});
  EXPECT_EQ(publish(location(3), publish_mode::if_absent), publish_outcome::duplicate)
      << "the first one is within reach again";
}

TEST_F(shard_room, who_is_out_of_reach_gives_way) {
  for (std::uint64_t i : {1, 2, 3, 4})
    publish(location(i));
  EXPECT_EQ(publish(location(5)), publish_outcome::duplicate);
  subject.set_out_of_reach(std::array{number(3)});
  EXPECT_EQ(publish(location(5)), publish_outcome::accepted);
  EXPECT_FALSE(knows(3));
}

} // namespace
} // namespace peercache::directory::shard_room_test
