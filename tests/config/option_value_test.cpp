#include "tests/config/sample_values.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace peercache::config {
namespace {

const option& named(std::string_view name) {
  const auto* opt = find_option(name);
  PEERCACHE_ASSERT(opt != nullptr);
  return *opt;
}

std::string refusal(std::string_view name, std::string_view text) {
  auto value = value_from_text(named(name), text);
  return value ? "accepted" : value.error().message;
}

TEST(option_value, every_sample_of_every_option_survives_writing_and_reading) {
  for (const auto& opt : options())
    for (const auto& value : test::sample_values(opt)) {
      auto read = value_from_text(opt, value_text(opt, value));
      ASSERT_TRUE(read) << opt.name << ": " << read.error().message;
      EXPECT_EQ(*read, value) << opt.name;
    }
}

TEST(option_value, bounds_are_inclusive_and_what_lies_outside_is_refused) {
  EXPECT_EQ(refusal("actors.threads", "2"), "accepted");
  EXPECT_EQ(refusal("actors.threads", "4"), "accepted");
  EXPECT_EQ(refusal("actors.threads", "5"), "5 is out of bounds: 2 to 4 is allowed");
  EXPECT_EQ(refusal("pool.size", "4k"), "4000B is out of bounds: 1MiB to 8TiB is allowed");
  EXPECT_EQ(refusal("net.data_port", "65536"), "65536 is out of bounds: 0 to 65535 is allowed");
  EXPECT_EQ(refusal("discovery.heartbeat", "9ms"), "9ms is out of bounds: 10ms to 60s is allowed");
}

TEST(option_value, numbers_that_are_none_are_refused) {
  for (const char* text : {"", "-1", "+1", "2x", " 2", "2 ", "0x2", "2.0"})
    EXPECT_NE(refusal("actors.threads", text), "accepted") << text;
  for (const char* text : {"", "nan", "inf", "-0.1", "0.51", "1e3", "0.1x", "0,1"})
    EXPECT_NE(refusal("pool.free_low", text), "accepted") << text;
  const auto nan =
      value_from_toml(named("pool.free_low"), toml_value{std::numeric_limits<double>::quiet_NaN()});
  EXPECT_FALSE(nan);
}

TEST(option_value, booleans_are_words_of_a_short_list) {
  for (const char* text : {"true", "yes", "on", "1"})
    EXPECT_EQ(*value_from_text(named("dev"), text), option_value{true}) << text;
  for (const char* text : {"false", "no", "off", "0"})
    EXPECT_EQ(*value_from_text(named("dev"), text), option_value{false}) << text;
  EXPECT_EQ(refusal("dev", "maybe"), "\"maybe\" is neither true nor false");
  EXPECT_NE(refusal("dev", ""), "accepted");
}

TEST(option_value, text_is_one_word_of_printable_ascii) {
  EXPECT_EQ(refusal("node.name", std::string(255, 'n')), "accepted");
  EXPECT_NE(refusal("node.name", std::string(256, 'n')), "accepted");
  EXPECT_NE(refusal("node.name", "two words"), "accepted");
  EXPECT_NE(refusal("node.name", "tab\t"), "accepted");
  EXPECT_NE(refusal("node.name", "\xff"), "accepted");
  EXPECT_EQ(refusal("node.name", ""), "accepted");
  EXPECT_EQ(refusal("cluster.name", ""), "the value must not be empty");
}

TEST(option_value, a_word_that_is_no_choice_is_answered_with_the_choices) {
  EXPECT_EQ(refusal("pool.eviction", "fifo"), "\"fifo\" is not one of: auto, lru, s3fifo");
}

TEST(option_value, names_may_be_a_list_or_one_word) {
  const auto& devices = *find_option("rdma.devices");
  using list = std::vector<std::string>;
  EXPECT_EQ(*value_from_toml(devices, std::string("auto")), option_value{list{"auto"}});
  EXPECT_EQ(*value_from_toml(devices, list{"a", "b"}), (option_value{list{"a", "b"}}));
  EXPECT_EQ(*value_from_text(devices, "a,b"), (option_value{list{"a", "b"}}));
  EXPECT_FALSE(value_from_toml(devices, list{"a b"}));
}

TEST(option_value, endpoints_need_a_host_and_a_port) {
  EXPECT_EQ(*parse_endpoint("host1:31998"), (host_port{"host1", 31998}));
  EXPECT_EQ(*parse_endpoint("[fd00::1]:1"), (host_port{"fd00::1", 1}));
  for (const char* text : {"", "host", ":1", "host:", "host:0", "host:65536", "host:1x",
                           "fd00::1:1", "[]:1", "[fd00::1]", "a b:1", "host:-1", "[a]b:1", "a,b:1"})
    EXPECT_FALSE(parse_endpoint(text)) << text;
  EXPECT_NE(refusal("discovery.seeds", "a:1,,b:2"), "accepted");
  EXPECT_EQ(refusal("discovery.seeds", ""), "accepted");
  std::string many = "h:1";
  for (int i = 0; i < 64; ++i)
    many += ",h:1";
  EXPECT_EQ(refusal("discovery.seeds", many), "the list has 65 entries; at most 64 are allowed");
}

TEST(option_value, toml_text_with_quotes_is_escaped) {
  EXPECT_EQ(value_toml(named("node.name"), "a\"b\\c"), R"("a\"b\\c")");
  EXPECT_EQ(value_toml(named("discovery.seeds"), std::vector<std::string>{"a:1", "b:2"}),
            R"(["a:1", "b:2"])");
  EXPECT_EQ(value_toml(named("pool.size"), std::uint64_t{1} << 30), "\"1GiB\"");
  EXPECT_EQ(value_toml(named("net.data_port"), std::uint64_t{5}), "5");
}

} // namespace
} // namespace peercache::config
