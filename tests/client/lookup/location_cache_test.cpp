#include "client/lookup/location_cache.hpp"
#include "tests/support/under_tsan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <sys/resource.h>
#include <utility>
#include <vector>

namespace peercache::client {
namespace {

page_key key_named(const std::string& name) {
  return key_space{}.key_of(name);
}

directory::page_location location(std::uint64_t gen, std::uint64_t holder = 1) {
  directory::page_location made;
  made.holder = {holder, holder};
  made.gen = {gen};
  return made;
}

std::vector<page_key> numbered_keys(std::size_t count) {
  std::vector<page_key> keys;
  for (std::size_t i = 0; i < count; ++i)
    keys.push_back(key_named(std::to_string(i)));
  return keys;
}

/// Returns the number of page faults of this thread so far.
long page_faults() {
  rusage used{};
  ::getrusage(RUSAGE_THREAD, &used);
  return used.ru_minflt;
}

TEST(location_cache, finds_what_was_stored_last) {
  location_cache cache{64};
  cache.store(key_named("a"), location(2));
  cache.store(key_named("a"), location(4));
  ASSERT_TRUE(cache.find(key_named("a")));
  EXPECT_EQ(cache.find(key_named("a"))->gen, generation{4});
  EXPECT_FALSE(cache.find(key_named("b")));
}

TEST(location_cache, a_stale_erase_does_not_remove_a_newer_location) {
  location_cache cache{64};
  cache.store(key_named("a"), location(4));
  cache.erase(key_named("a"), location(2));
  cache.erase(key_named("a"), location(4, 9));
  EXPECT_TRUE(cache.find(key_named("a")));
  cache.erase(key_named("a"), location(4));
  EXPECT_FALSE(cache.find(key_named("a")));
}

TEST(location_cache, keeps_at_most_its_capacity_and_the_most_recent_of_a_bucket) {
  location_cache cache{8};
  for (int i = 0; i < 100; ++i)
    cache.store(key_named(std::to_string(i)), location(2));
  int found = 0;
  for (int i = 0; i < 100; ++i)
    found += cache.find(key_named(std::to_string(i))).has_value();
  EXPECT_EQ(found, 8);
  EXPECT_TRUE(cache.find(key_named("99")));
}

TEST(location_cache, holds_the_keys_that_it_was_made_for_as_far_as_their_buckets_go) {
  location_cache cache{9};
  for (int i = 0; i < 9; ++i)
    cache.store(key_named(std::to_string(i)), location(2));
  for (int i = 0; i < 9; ++i)
    EXPECT_TRUE(cache.find(key_named(std::to_string(i)))) << i;
}

/// A location cache of one bucket, which is full.
class full_bucket : public testing::Test {
protected:
  void SetUp() override {
    for (int i = 0; i < 8; ++i)
      cache.store(key_named(std::to_string(i)), location(2));
  }
  bool knows(int i) { return cache.find(key_named(std::to_string(i))).has_value(); }

  location_cache cache{8};
};

TEST_F(full_bucket, what_was_looked_for_stays_before_what_was_not) {
  EXPECT_TRUE(knows(0));
  cache.store(key_named("new"), location(2));
  EXPECT_TRUE(knows(0));
  EXPECT_FALSE(knows(1)) << "stored first of those that nobody looked for";
}

TEST_F(full_bucket, loses_what_was_used_longest_ago) {
  std::vector<int> by_use{0, 1, 2, 3, 4, 5, 6, 7}; // The one that was used longest ago comes first.
  std::mt19937 random(7);
  for (int next = 8; next < 2000; ++next) {
    for (int uses = static_cast<int>(random() % 4); uses > 0; --uses) {
      const auto at = by_use.begin() + static_cast<std::ptrdiff_t>(random() % by_use.size());
      ASSERT_TRUE(knows(*at)) << next;
      std::rotate(at, at + 1, by_use.end());
    }
    cache.store(key_named(std::to_string(next)), location(2));
    ASSERT_FALSE(knows(by_use.front())) << next;
    std::rotate(by_use.begin(), by_use.begin() + 1, by_use.end());
    by_use.back() = next;
  }
}

TEST_F(full_bucket, a_newer_location_of_a_key_takes_no_other_ones_place) {
  cache.store(key_named("3"), location(4));
  for (int i = 0; i < 8; ++i)
    EXPECT_TRUE(knows(i)) << i;
  EXPECT_EQ(cache.find(key_named("3"))->gen, generation{4});
}

TEST_F(full_bucket, the_place_of_a_forgotten_key_is_taken_first) {
  cache.erase(key_named("5"));
  EXPECT_FALSE(knows(5));
  cache.store(key_named("new"), location(2));
  for (const int i : {0, 1, 2, 3, 4, 6, 7})
    EXPECT_TRUE(knows(i)) << i;
}

TEST_F(full_bucket, is_the_same_after_a_prefetch_for_stores) {
  cache.prefetch_for_stores(numbered_keys(location_cache::stores_ahead + 9));
  cache.store(key_named("new"), location(2));
  EXPECT_FALSE(knows(0)) << "no prefetch counts as a use: the key that was stored first has gone";
  for (int i = 1; i < 8; ++i)
    EXPECT_TRUE(knows(i)) << i;
  for (int i = 8; i < 16; ++i)
    EXPECT_FALSE(knows(i)) << i;
}

TEST(location_cache, looks_at_keys_that_it_does_not_keep_touch_8_bytes_for_each_that_it_may_keep) {
  if (under_tsan)
    GTEST_SKIP() << "TSan notes each read in four times as much memory of its own";
  location_cache cache{1u << 20};
  const auto absent = numbered_keys(20'000);
  const auto before = page_faults();
  for (const auto& key : absent) {
    EXPECT_FALSE(cache.find(key));
    cache.erase(key);
    cache.erase(key, location(2));
  }
  // All heads together are 2,048 pages of memory; a sanitizer touches some 260 of its own.
  EXPECT_LT(page_faults() - before, 2048 + 700);
}

TEST(location_cache, keys_that_are_stored_together_share_pages_of_memory) {
  location_cache cache{1u << 20};
  const auto stored = numbered_keys(5'000);
  for (const auto& key : stored)
    EXPECT_FALSE(cache.find(key)); // The heads are there from now on.
  const auto before = page_faults();
  for (const auto& key : stored)
    cache.store(key, location(2));
  // Heads that were only read may cost another fault when they are first written to: 2,048. The
  // entries lie in 108 pages of memory; each in the page of its bucket, they would lie in some
  // 4,500.
  EXPECT_LT(page_faults() - before, 3500);
}

TEST(location_cache, a_bucket_that_became_empty_keeps_again) {
  location_cache cache{8};
  for (std::uint64_t round = 1; round < 600; ++round) {
    for (int i = 0; i < 8; ++i)
      cache.store(key_named(std::to_string(i)), location(round));
    for (int i = 0; i < 8; ++i) {
      ASSERT_TRUE(cache.find(key_named(std::to_string(i)))) << round;
      cache.erase(key_named(std::to_string(i)));
      ASSERT_FALSE(cache.find(key_named(std::to_string(i)))) << round;
    }
  }
}

TEST(location_cache, keys_of_one_tag_are_told_apart) {
  location_cache cache{8};
  std::array<page_key, 8> keys{};
  for (std::uint8_t i = 0; i < keys.size(); ++i) {
    keys[i].bytes.back() = i; // All other bytes are equal, those of bucket and tag too.
    cache.store(keys[i], location(2 + 2 * i));
  }
  for (std::uint8_t i = 0; i < keys.size(); ++i) {
    const auto found = cache.find(keys[i]);
    ASSERT_TRUE(found) << int{i};
    EXPECT_EQ(*found, location(2 + 2 * i));
  }
}

TEST(location_cache, a_forgotten_key_is_not_found_behind_another_one_of_its_tag) {
  // The tag of these keys is the lowest one, 1, which differs in one bit from that of no key.
  location_cache cache{8};
  std::array<page_key, 2> keys{};
  keys[1].bytes.back() = 1;
  for (const auto& key : keys)
    cache.store(key, location(2));
  cache.erase(keys[1]);
  EXPECT_TRUE(cache.find(keys[0]));
  EXPECT_FALSE(cache.find(keys[1]));
}

TEST(zeroed_array, has_zeros_and_moves) {
  zeroed_array<std::uint64_t> made(1000);
  ASSERT_TRUE(made);
  EXPECT_EQ(made[0], 0u);
  EXPECT_EQ(made[999], 0u);
  made[999] = 7;
  auto moved = std::move(made);
  EXPECT_EQ(moved[999], 7u);
  moved = {};
  EXPECT_FALSE(moved);
}

TEST(zeroed_array, for_which_there_is_no_room_is_null) {
  EXPECT_FALSE(zeroed_array<std::uint64_t>(std::size_t{1} << 57));
}

TEST(location_cache, of_no_capacity_keeps_nothing) {
  location_cache cache{0};
  cache.prefetch_for_stores(std::array{key_named("a")});
  cache.store(key_named("a"), location(2));
  cache.erase(key_named("a"));
  EXPECT_FALSE(cache.find(key_named("a")));
}

} // namespace
} // namespace peercache::client
