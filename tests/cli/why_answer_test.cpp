#include "cli/why_answer.hpp"

#include <gtest/gtest.h>

#include <string>

namespace peercache::cli::why_answer_test {

TEST(why_answer, fails_only_where_pages_were_missed) {
  why_answer answer;
  EXPECT_EQ(exit_code_of(answer), exit_code::ok);
  answer.causes.push_back({.cause = "never_asked", .fix = "ask"});
  EXPECT_EQ(exit_code_of(answer), exit_code::ok);
  answer.missed = 1;
  EXPECT_EQ(exit_code_of(answer), exit_code::failed);
  answer.silent = {"a"};
  EXPECT_EQ(exit_code_of(answer), exit_code::degraded);
}

TEST(why_answer, says_that_the_directory_did_not_answer) {
  why_answer answer;
  EXPECT_EQ(to_text(answer).find("directory"), std::string::npos);
  answer.unlocated = 3;
  EXPECT_EQ(exit_code_of(answer), exit_code::degraded);
  EXPECT_NE(to_text(answer).find("the directory did not answer for 3 keys"), std::string::npos);
  EXPECT_EQ(to_json(answer)["unlocated"], 3);
}

TEST(why_answer, cuts_the_keys_of_callers) {
  why_answer answer;
  answer.causes.push_back({.cause = "evicted", .key = std::string(5000, 'k'), .digest = "d"});
  const auto cut = std::string(shown_key_bytes_max, 'k') + "...";
  EXPECT_EQ(to_json(answer)["causes"][0]["example"]["key"], cut);
  EXPECT_EQ(to_text(answer).find(std::string(shown_key_bytes_max + 1, 'k')), std::string::npos);
  answer.causes[0].key.assign(5000, '\x01');
  EXPECT_EQ(to_json(answer)["causes"][0]["example"]["key"].get<std::string>().size(),
            2 * shown_key_bytes_max + 3);
  answer.causes[0].key = "short";
  EXPECT_EQ(to_json(answer)["causes"][0]["example"]["key"], "short");
}

} // namespace peercache::cli::why_answer_test
