#include "link/member_question.hpp"

#include <gtest/gtest.h>

#include <map>

namespace peercache::link {
namespace {

std::string asked(member_question kind, std::string_view body) {
  return encode_question({7, kind, body});
}

/// Returns, for each kind of question, the longest body that a question may have.
std::map<member_question, std::string> longest_bodies() {
  const auto records = [](std::size_t bytes, std::size_t count) {
    return std::string(bytes * count, '\0');
  };
  const auto keys = records(directory::wire::key_bytes, limits::batch_pages_max);
  const auto pages = records(sizeof(promoted_page), limits::batch_pages_max);
  return {{member_question::hello, ""},
          {member_question::view, std::string(32, 's')},
          {member_question::look_up, keys},
          {member_question::remove, keys},
          {member_question::promote, promote_body(promote_ms_max, pages)},
          {member_question::warm, pages},
          {member_question::used, records(sizeof(used_page), used_pages_max)},
          {member_question::withdraw,
           records(directory::wire::withdraw_record_bytes, limits::batch_pages_max)},
          {member_question::hold,
           hold_body({7, 2000, records(sizeof(used_page), limits::batch_pages_max)})}};
}

TEST(member_question_test, comes_out_as_it_went_in) {
  for (const auto& [kind, body] : longest_bodies()) {
    const auto bytes = asked(kind, body);
    const auto read = read_question(bytes);
    ASSERT_TRUE(read) << static_cast<int>(kind);
    EXPECT_EQ(read->number, 7u);
    EXPECT_EQ(read->kind, kind);
    EXPECT_EQ(read->body, body);
  }
}

TEST(member_question_test, has_a_limit_whatever_its_kind) {
  ASSERT_EQ(longest_bodies().size(), member_question_kinds);
  for (const auto& [kind, body] : longest_bodies()) {
    EXPECT_FALSE(read_question(asked(kind, body + 'x'))) << static_cast<int>(kind);
    EXPECT_FALSE(read_question(asked(kind, body + std::string(320, '\0'))))
        << static_cast<int>(kind) << ": whole records, but too many";
  }
}

TEST(member_question_test, of_no_known_kind_or_with_more_than_zeros_is_not_one) {
  auto bytes = asked(member_question::hello, "");
  bytes[4] = static_cast<char>(member_question_kinds);
  EXPECT_FALSE(read_question(bytes));
  for (const std::size_t reserved : {5, 6, 7}) {
    bytes = asked(member_question::hello, "");
    bytes[reserved] = 1;
    EXPECT_FALSE(read_question(bytes));
  }
  for (std::size_t length = 0; length < 8; ++length)
    EXPECT_FALSE(read_question(std::string_view(bytes).substr(0, length)));
}

TEST(member_question_test, a_promote_says_how_long_it_may_take_within_a_limit) {
  const std::string page(sizeof(promoted_page), 'p');
  EXPECT_EQ(promote_ms(promote_body(250, page)), 250u);
  EXPECT_EQ(promote_pages(promote_body(250, page)), page);
  auto forged = promote_body(promote_ms_max, page);
  ++forged[0];
  EXPECT_FALSE(read_question(asked(member_question::promote, forged)));
  EXPECT_FALSE(read_question(asked(member_question::promote, "abc")));
}

TEST(member_question_test, a_hold_names_its_holder_and_its_time) {
  const std::string page(sizeof(used_page), 'p');
  const auto body = hold_body({5, 250, page});
  EXPECT_EQ(hold_of(body).holder, 5u);
  EXPECT_EQ(hold_of(body).for_ms, 250u);
  EXPECT_EQ(hold_of(body).pages, page);
  EXPECT_FALSE(read_question(asked(member_question::hold, body.substr(0, 7))))
      << "no room for both";
}

TEST(member_question_test, the_longest_ones_have_room_in_half_of_what_a_member_holds) {
  for (const auto& [kind, body] : longest_bodies())
    EXPECT_LE(held_bytes_of(kind, body.size()), 2u << 20) << static_cast<int>(kind);
}

TEST(member_question_test, an_answer_has_the_number_of_its_question) {
  const auto bytes = encode_answer(9, "said");
  const auto read = read_answer(bytes);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->number, 9u);
  EXPECT_EQ(read->body, "said");
  EXPECT_FALSE(read_answer("abc"));
}

} // namespace
} // namespace peercache::link
