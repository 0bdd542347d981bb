#include "common/page_origin.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace peercache {

TEST(page_origin, each_origin_has_one_word_of_its_own) {
  EXPECT_EQ(to_string(page_origin::none), "none");
  EXPECT_EQ(to_string(page_origin::own_host), "own_host");
  EXPECT_EQ(to_string(page_origin::other_host), "other_host");
  EXPECT_EQ(to_string(page_origin::disk), "disk");
  EXPECT_EQ(to_string(page_origin::other_host_rdma), "other_host_rdma");
  std::set<std::string_view> words(page_origin_words.begin(), page_origin_words.end());
  EXPECT_EQ(words.size(), page_origin_count);
}

TEST(page_origin, a_number_that_is_no_origin_is_unknown_and_not_a_crash) {
  EXPECT_EQ(to_string(static_cast<page_origin>(page_origin_count)), "unknown");
}

TEST(page_origin, sources_are_all_origins_but_none_in_their_order) {
  ASSERT_EQ(page_source_words.size() + 1, page_origin_count);
  for (std::size_t i = 0; i < page_source_words.size(); ++i)
    EXPECT_EQ(page_source_words[i], to_string(static_cast<page_origin>(i + 1)));
}

} // namespace peercache
