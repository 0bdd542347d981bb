#include "directory/shard_layout.hpp"

#include <gtest/gtest.h>
#include <random>

namespace peercache::directory::shard_layout_test {
namespace {

constexpr incarnation holder{3, 4};

page_key some_key() {
  return key_space{}.key_of("a page");
}

shard_record some_record() {
  return {.gen = 8,
          .checksum = 0x1234,
          .slot = 5,
          .length_bytes = 4096,
          .next = 77,
          .holder = 9,
          .where = tier::disk,
          .mirrored = true};
}

TEST(shard_layout, a_record_comes_back_as_it_was) {
  const auto words = some_record().encode(some_key(), holder);
  EXPECT_TRUE(is_of(words, words_of(some_key()), holder));
  EXPECT_EQ(key_in(words, holder), some_key());
  const auto back = shard_record::decode(words);
  EXPECT_EQ(back.location({holder, {6}, false}), some_record().location({holder, {6}, false}));
  EXPECT_EQ(back.next, 77u);
  EXPECT_EQ(holder_in(words), 9);
}

TEST(shard_layout, a_record_with_one_word_of_another_one_is_nobodys) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 1000; ++i) {
    auto later = some_record();
    later.gen += 2 * (random() % 3);
    later.checksum = random();
    later.slot = static_cast<std::uint32_t>(random());
    later.next = static_cast<unit_number>(random());
    const auto old_words = some_record().encode(some_key(), holder);
    auto torn = later.encode(some_key(), holder);
    const auto which = random() % 8;
    if (torn[which] == old_words[which])
      continue;
    torn[which] = old_words[which];
    EXPECT_FALSE(is_of(torn, words_of(some_key()), holder)) << which;
  }
}

TEST(shard_layout, a_record_of_another_holder_is_not_the_keys) {
  const auto words = some_record().encode(some_key(), holder);
  EXPECT_FALSE(is_of(words, words_of(some_key()), {3, 5}));
  EXPECT_FALSE(is_of(words, words_of(some_key()), {4, 4}));
}

TEST(shard_layout, headers_and_holders_with_a_wrong_bit_are_none) {
  shard_header header;
  header.changes = 6;
  header.index = 9;
  header.index_bits = 2;
  header.holders_unit = 1;
  header.holders = 3;
  header.seed = 99;
  header.by = {4, 5};
  const auto words = header.encode();
  EXPECT_EQ(shard_header::decode(words), header);
  const shard_holder member{holder, {7}, true};
  const auto cell = member.encode();
  ASSERT_TRUE(shard_holder::decode(cell));
  EXPECT_TRUE(shard_holder::decode(cell)->gone);
  for (std::size_t word = 0; word < words.size(); ++word)
    for (unsigned bit = 0; bit < 64; ++bit) {
      auto wrong = words;
      wrong[word] ^= std::uint64_t{1} << bit;
      const bool may_change = word == 0 && wrong[0] == (words[0] | forbidden_bit);
      EXPECT_EQ(shard_header::decode(wrong).has_value(), may_change) << word << " " << bit;
      if (word < cell.size()) {
        auto other = cell;
        other[word] ^= std::uint64_t{1} << bit;
        EXPECT_FALSE(shard_holder::decode(other)) << word << " " << bit;
      }
    }
}

} // namespace
} // namespace peercache::directory::shard_layout_test
