#include "common/result.hpp"

#include "common/page_status.hpp"

#include <gtest/gtest.h>
#include <memory>
#include <set>
#include <string>

namespace peercache {
namespace {

result<int> half_of(int value) {
  if (value % 2 != 0)
    return {errc::invalid_argument, std::to_string(value) + " is odd"};
  return value / 2;
}

result<void> only_even(int value) {
  if (value % 2 != 0)
    return {errc::refused, "odd"};
  return {};
}

TEST(result, holds_a_value) {
  auto got = half_of(8);
  ASSERT_TRUE(got);
  EXPECT_EQ(*got, 4);
}

TEST(result, holds_an_error_instead_of_a_value) {
  auto got = half_of(7);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, errc::invalid_argument);
  EXPECT_EQ(got.error().message, "7 is odd");
}

TEST(result, of_nothing_holds_an_error_or_success) {
  EXPECT_TRUE(only_even(2));
  auto got = only_even(1);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, errc::refused);
}

TEST(result, passes_an_error_on_to_another_type) {
  result<std::string> got = half_of(7).error();
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().message, "7 is odd");
}

TEST(result, gives_up_a_value_that_cannot_be_copied) {
  result<std::unique_ptr<int>> got = std::make_unique<int>(5);
  auto owned = *std::move(got);
  EXPECT_EQ(*owned, 5);
}

TEST(result, reaches_into_its_value) {
  result<std::string> got = std::string("abc");
  EXPECT_EQ(got->size(), 3u);
  got->push_back('d');
  const auto& constant = got;
  EXPECT_EQ(*constant, "abcd");
}

TEST(result_death, asking_for_what_is_not_there_is_a_fault_of_ours) {
  EXPECT_DEATH((void)*half_of(7), "assertion failed");
  EXPECT_DEATH((void)half_of(8).error(), "assertion failed");
  EXPECT_DEATH((void)only_even(2).error(), "assertion failed");
}

TEST(error, text_has_the_kind_and_the_message) {
  EXPECT_EQ(to_string(error{errc::timed_out, "node-2 gave no answer"}),
            "timed out: node-2 gave no answer");
  EXPECT_EQ(to_string(error{errc::io_failed, ""}), "I/O failed");
}

TEST(error, kinds_have_different_words) {
  std::set<std::string_view> words;
  for (int i = 1; i <= static_cast<int>(errc::closed); ++i)
    words.insert(to_string(static_cast<errc>(i)));
  EXPECT_EQ(words.size(), static_cast<std::size_t>(errc::closed));
  EXPECT_FALSE(words.contains("unknown error"));
}

TEST(page_status, words_are_different_and_complete) {
  std::set<std::string_view> words;
  for (std::size_t i = 0; i < page_status_count; ++i)
    words.insert(to_string(static_cast<page_status>(i)));
  EXPECT_EQ(words.size(), page_status_count);
  EXPECT_FALSE(words.contains("unknown"));
  EXPECT_EQ(to_string(page_status::pending), "pending");
  EXPECT_EQ(to_string(page_status::corrupt), "corrupt");
}

TEST(page_status, only_three_are_successes) {
  EXPECT_TRUE(is_success(page_status::hit));
  EXPECT_TRUE(is_success(page_status::stored));
  EXPECT_TRUE(is_success(page_status::duplicate));
  for (auto i = static_cast<std::size_t>(page_status::not_found); i < page_status_count; ++i)
    EXPECT_FALSE(is_success(static_cast<page_status>(i)));
}

} // namespace
} // namespace peercache
