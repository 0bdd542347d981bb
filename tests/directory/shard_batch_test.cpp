#include "directory/shard_batch.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <vector>

namespace peercache::directory::shard_batch_test {
namespace {

constexpr incarnation producer{7, 7};
constexpr incarnation other{8, 8};

page_key random_key(std::mt19937_64& random) {
  page_key key;
  for (std::size_t i = 0; i < key.bytes.size(); i += 8) {
    auto word = random();
    std::memcpy(key.bytes.data() + i, &word, 8);
  }
  return key;
}

page_location location(std::uint64_t gen, incarnation holder = producer) {
  return {.node = {holder.low},
          .holder = holder,
          .gen = {gen},
          .checksum = gen,
          .slot = {static_cast<std::uint32_t>(gen)},
          .length_bytes = 65536};
}

std::string publish_bytes(const std::vector<page_key>& keys, std::uint64_t gen,
                          incarnation holder = producer) {
  std::string batch;
  for (const auto& key : keys)
    append_publish(batch, {key, location(gen, holder), publish_mode::if_absent});
  return batch;
}

std::vector<page_key> some_keys(std::size_t count, std::uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  std::vector<page_key> keys(count);
  std::generate(keys.begin(), keys.end(), [&] { return random_key(random); });
  return keys;
}

shard shard_with_members() {
  shard s;
  s.set_members(std::array{producer, other});
  return s;
}

TEST(shard_batch, one_outcome_a_record_in_their_order) {
  auto s = shard_with_members();
  auto keys = some_keys(100);
  ASSERT_TRUE(publish_batch(s, publish_bytes({keys[3]}, 2, other)));
  auto batch = publish_bytes(keys, 2);
  append_publish(batch, {keys[0], location(2, {9, 9}), publish_mode::always});
  auto outcomes = publish_batch(s, batch);
  ASSERT_TRUE(outcomes);
  ASSERT_EQ(outcomes->size(), 101u);
  for (std::size_t i = 0; i < 100; ++i)
    EXPECT_EQ(static_cast<publish_outcome>((*outcomes)[i]),
              i == 3 ? publish_outcome::duplicate : publish_outcome::accepted);
  EXPECT_EQ(static_cast<publish_outcome>((*outcomes)[100]), publish_outcome::unknown_holder);
}

TEST(shard_batch, lookups_say_which_keys_are_not_the_shards) {
  auto s = shard_with_members();
  auto keys = some_keys(3);
  ASSERT_TRUE(publish_batch(s, publish_bytes({keys.begin(), keys.begin() + 1}, 2)));
  std::string request;
  for (const auto& key : keys)
    append_lookup(request, key);
  std::uint64_t foreign = 0;
  key_ownership ownership{[&](const page_key& key) { return key == keys[1]; }, {7, 42}};
  auto answer = lookup_batch(s, request, ownership, foreign);
  ASSERT_TRUE(answer);
  answer_reader reader(*answer);
  std::array<page_location, limits::locations_per_key_max> found;
  std::size_t count = 0;
  ASSERT_TRUE(reader.next(found, count));
  EXPECT_EQ(count, 1u) << "what it still knows of a key it tells, whoever owns it";
  EXPECT_FALSE(reader.not_mine());
  ASSERT_TRUE(reader.next(found, count));
  EXPECT_EQ(count, 0u);
  EXPECT_FALSE(reader.not_mine());
  ASSERT_TRUE(reader.next(found, count));
  EXPECT_TRUE(reader.not_mine());
  EXPECT_EQ(reader.view(), (view_number{7, 42}));
  EXPECT_TRUE(reader.finished());
  EXPECT_EQ(foreign, 1u);
}

TEST(shard_batch, lookups_answer_for_every_key) {
  auto s = shard_with_members();
  auto keys = some_keys(101);
  ASSERT_TRUE(publish_batch(s, publish_bytes({keys.begin(), keys.begin() + 50}, 2)));
  std::string request;
  for (const auto& key : keys)
    append_lookup(request, key);
  auto answer = lookup_batch(s, request);
  ASSERT_TRUE(answer);
  answer_reader reader(*answer);
  std::array<page_location, limits::locations_per_key_max> found;
  std::size_t count = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    ASSERT_TRUE(reader.next(found, count));
    ASSERT_EQ(count, i < 50 ? 1u : 0u);
    if (count == 1) {
      EXPECT_EQ(found[0], location(2));
    }
  }
  EXPECT_TRUE(reader.finished());
}

TEST(shard_batch, withdrawals_count_what_was_there) {
  auto s = shard_with_members();
  auto keys = some_keys(64);
  ASSERT_TRUE(publish_batch(s, publish_bytes(keys, 4)));
  std::string batch;
  for (std::size_t i = 0; i < keys.size(); ++i)
    append_withdraw(batch, {keys[i], producer, {i < 40 ? 4u : 2u}});
  auto forgotten = withdraw_batch(s, batch);
  ASSERT_TRUE(forgotten);
  EXPECT_EQ(*forgotten, 40u);
  EXPECT_EQ(s.keys(), 24u);
}

TEST(shard_batch, an_empty_batch_is_fine) {
  auto s = shard_with_members();
  EXPECT_TRUE(publish_batch(s, "") && withdraw_batch(s, "") && lookup_batch(s, ""));
}

TEST(shard_batch, a_fault_anywhere_in_a_batch_changes_nothing) {
  auto s = shard_with_members();
  auto batch = publish_bytes(some_keys(10), 2);
  batch.back() = 1; // Sets a reserved byte of the last record, which must be zero.
  auto outcome = publish_batch(s, batch);
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, errc::invalid_argument);
  EXPECT_EQ(s.keys(), 0u);
  EXPECT_FALSE(publish_batch(s, batch.substr(1)));
  EXPECT_FALSE(withdraw_batch(s, "x"));
  EXPECT_FALSE(lookup_batch(s, "x"));
  EXPECT_FALSE(lookup_batch(s, std::string(32 * (limits::batch_pages_max + 1), 'k')));
}

} // namespace
} // namespace peercache::directory::shard_batch_test
