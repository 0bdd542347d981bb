#include "config/options.hpp"
#include "config/suggestion.hpp"

#include <gtest/gtest.h>

namespace peercache::config {
namespace {

TEST(edit_distance, counts_insertions_deletions_replacements_and_swaps) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("abc", ""), 3u);
  EXPECT_EQ(edit_distance("size", "size"), 0u);
  EXPECT_EQ(edit_distance("sise", "size"), 1u);
  EXPECT_EQ(edit_distance("siez", "size"), 1u);
  EXPECT_EQ(edit_distance("sizes", "size"), 1u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
}

TEST(closest, is_silent_about_words_that_are_like_none) {
  const std::string names[] = {"pool.size", "log.level"};
  EXPECT_EQ(closest("pool.sise", names), "pool.size");
  EXPECT_EQ(closest("something.else", names), std::nullopt);
  EXPECT_EQ(closest("", names), std::nullopt);
  EXPECT_EQ(closest(std::string(100'000, 'p'), names), std::nullopt);
}

TEST(name_hint, every_option_is_found_again_after_one_typing_error) {
  for (const auto& opt : options()) {
    std::string swapped{opt.name};
    std::swap(swapped[swapped.size() - 1], swapped[swapped.size() - 2]);
    EXPECT_EQ(name_hint(swapped), " (did you mean `" + std::string(opt.name) + "`?)");
  }
}

TEST(name_hint, finds_an_option_whose_section_was_forgotten) {
  EXPECT_EQ(name_hint("heartbeat"), " (did you mean `discovery.heartbeat`?)");
  EXPECT_EQ(name_hint("memory.eviction"), " (did you mean `pool.eviction`?)");
}

TEST(flag_hint, suggests_a_flag) {
  EXPECT_EQ(flag_hint("--pool-sise"), " (did you mean `--pool-size`?)");
  EXPECT_EQ(flag_hint("--completely-different"), "");
}

} // namespace
} // namespace peercache::config
