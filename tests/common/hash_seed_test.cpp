#include "common/hash_seed.hpp"

#include "common/ids.hpp"
#include "common/page_key.hpp"

#include <bit>
#include <cstring>
#include <gtest/gtest.h>
#include <set>

namespace peercache {
namespace {

page_key key_of_words(std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t d) {
  page_key key;
  const std::uint64_t words[] = {a, b, c, d};
  std::memcpy(key.bytes.data(), words, sizeof words);
  return key;
}

/// Returns the number of different hashes of 10,000 keys, which an attacker might choose because a
/// simpler hash gives them equal values.
template <class Make>
std::size_t different_hashes(Make make) {
  std::set<std::size_t> hashes;
  for (std::uint64_t i = 1; i <= 10'000; ++i)
    hashes.insert(std::hash<page_key>{}(make(i)));
  return hashes.size();
}

TEST(hash_seed, keys_that_are_alike_in_most_words_have_different_hashes) {
  EXPECT_EQ(different_hashes([](auto i) { return key_of_words(7, 7, 7, i); }), 10'000u);
  EXPECT_EQ(different_hashes([](auto i) { return key_of_words(7, i, 7, 7); }), 10'000u);
  EXPECT_EQ(different_hashes([](auto i) { return key_of_words(std::rotl(i, 29), i, 7, 7); }),
            10'000u);
  std::set<std::size_t> incarnations;
  for (std::uint64_t i = 1; i <= 10'000; ++i)
    incarnations.insert(std::hash<incarnation>{}({i, 7}));
  EXPECT_EQ(incarnations.size(), 10'000u);
}

TEST(hash_seed, another_seed_makes_other_hashes) {
  const auto key = key_of_words(1, 2, 3, 4);
  const auto before = std::hash<page_key>{}(key);
  hash_seed::draw();
  EXPECT_NE(std::hash<page_key>{}(key), before);
}

} // namespace
} // namespace peercache
