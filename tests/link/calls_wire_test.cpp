#include "link/protocol/calls_wire.hpp"

#include <gtest/gtest.h>

namespace peercache::link {
namespace {

std::vector<space_calls> some_spaces() {
  std::vector<space_calls> spaces(2);
  spaces[0].door = "vllm";
  spaces[0].fields = {"model", ""};
  spaces[0].facts = {{"block_size", "16"}};
  spaces[0].pages = {1, 2, 3};
  spaces[0].unasked = {{"late", 7}};
  spaces[0].failed.resize(1);
  spaces[0].failed[0].status = 3;
  spaces[0].failed[0].age_ms = 250;
  spaces[0].failed[0].digest = std::string(32, 'd');
  spaces[0].failed[0].caller_key = "key";
  return spaces;
}

TEST(calls_on_the_wire, are_what_was_told) {
  std::vector<space_calls> read;
  ASSERT_TRUE(decode_spaces(encode_spaces(some_spaces()), read));
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(encode_spaces(read), encode_spaces(some_spaces()));
  EXPECT_EQ(read[0].facts.at("block_size"), "16");
  EXPECT_EQ(read[0].failed[0].caller_key, "key");
  EXPECT_TRUE(read[1].door.empty());
}

TEST(calls_on_the_wire, are_refused_when_they_are_cut_short_or_go_on) {
  const auto whole = encode_spaces(some_spaces());
  std::vector<space_calls> read;
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_FALSE(decode_spaces(std::string_view(whole).substr(0, length), read)) << length;
    EXPECT_TRUE(read.empty());
  }
  EXPECT_FALSE(decode_spaces(whole + '\0', read));
}

TEST(calls_on_the_wire, are_refused_when_they_are_too_long_or_name_more_than_they_have) {
  std::vector<space_calls> read;
  EXPECT_FALSE(decode_spaces(std::string(spaces_bytes_max + 1, '\0'), read));
  EXPECT_FALSE(decode_spaces(std::string("\xff\xff\xff\xff", 4), read));
}

} // namespace
} // namespace peercache::link
