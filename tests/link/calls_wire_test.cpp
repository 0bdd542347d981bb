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

call_report some_watch() {
  call_report report;
  report.slow.resize(2);
  report.slow[1].took_us = 250'000;
  report.slow[1].peer = "node-2";
  report.uses.resize(1);
  report.uses[0].space = 7;
  report.uses[0].pages = {1, 2, 3};
  report.data_plane = "tcp: no device";
  return report;
}

TEST(the_watch_on_the_wire, is_what_was_told) {
  call_report read;
  ASSERT_TRUE(decode_watch(encode_watch(some_watch()), read));
  EXPECT_EQ(encode_watch(read), encode_watch(some_watch()));
  EXPECT_EQ(read.slow.at(1).peer, "node-2");
  EXPECT_EQ(read.uses.at(0).pages.at(2), 3u);
  EXPECT_EQ(read.data_plane, "tcp: no device");
}

TEST(the_watch_on_the_wire, is_refused_when_it_is_cut_short_or_goes_on_or_is_too_long) {
  const auto whole = encode_watch(some_watch());
  call_report read;
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_FALSE(decode_watch(std::string_view(whole).substr(0, length), read)) << length;
    EXPECT_TRUE(read.slow.empty() && read.uses.empty() && read.data_plane.empty()) << length;
  }
  EXPECT_FALSE(decode_watch(whole + '\0', read));
  EXPECT_FALSE(decode_watch(std::string(watch_bytes_max + 1, '\0'), read));
}

} // namespace
} // namespace peercache::link
