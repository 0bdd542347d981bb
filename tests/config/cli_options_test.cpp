#include "config/cli_options.hpp"

#include "tests/config/sample_values.hpp"

#include <CLI/CLI.hpp>
#include <gtest/gtest.h>

namespace peercache::config {
namespace {

struct command_line {
  CLI::App app{"test", "test"};
  cli_options flags;

  explicit command_line(std::span<const std::string_view> prefixes = {}) : flags(app, prefixes) {}

  /// Parses the words. Returns the flags that were given, or nothing when CLI11 refused the line.
  std::optional<std::vector<given_flag>> parse(std::vector<std::string> words) {
    // CLI11 expects the words in reverse order.
    std::reverse(words.begin(), words.end());
    try {
      app.parse(words);
    } catch (const CLI::ParseError&) {
      return std::nullopt;
    }
    return flags.given();
  }
};

TEST(cli_options, every_option_has_a_flag_whose_value_arrives) {
  for (const auto& opt : options())
    for (const auto& value : test::sample_values(opt)) {
      command_line line;
      const auto text = value_text(opt, value);
      auto given = line.parse({opt.flag() + "=" + text});
      ASSERT_TRUE(given) << opt.name;
      ASSERT_EQ(given->size(), 1u) << opt.name;
      EXPECT_EQ(given->front().name, opt.name);
      EXPECT_EQ(given->front().text, text) << opt.name;
    }
}

TEST(cli_options, what_was_not_given_is_not_reported) {
  command_line line;
  auto given = line.parse({});
  ASSERT_TRUE(given);
  EXPECT_TRUE(given->empty());
}

TEST(cli_options, a_value_may_follow_as_the_next_word) {
  command_line line;
  auto given = line.parse({"--pool-size", "64GiB", "--log-level", "debug"});
  ASSERT_TRUE(given);
  ASSERT_EQ(given->size(), 2u);
  EXPECT_EQ((*given)[0].text, "64GiB");
  EXPECT_EQ((*given)[1].text, "debug");
}

TEST(cli_options, switches_can_be_set_cleared_and_spelt_out) {
  const std::pair<const char*, const char*> cases[] = {
      {"--dev", "true"},      {"--no-dev", "false"},          {"--dev=false", "false"},
      {"--dev=true", "true"}, {"--insecure-cluster", "true"}, {"--no-metrics-enabled", "false"}};
  for (const auto& [word, text] : cases) {
    command_line line;
    auto given = line.parse({word});
    ASSERT_TRUE(given) << word;
    ASSERT_EQ(given->size(), 1u) << word;
    EXPECT_EQ(given->front().text, text) << word;
  }
}

TEST(cli_options, of_a_repeated_flag_the_last_one_wins_and_lists_grow) {
  command_line line;
  auto given = line.parse({"--discovery-seeds", "a:1", "--pool-size=1GiB", "--dev",
                           "--pool-size=2GiB", "--discovery-seeds", "b:2,c:3", "--no-dev"});
  ASSERT_TRUE(given);
  ASSERT_EQ(given->size(), 3u);
  EXPECT_EQ((*given)[0].text, "false");
  EXPECT_EQ((*given)[1].text, "a:1,b:2,c:3");
  EXPECT_EQ((*given)[2].text, "2GiB");
}

TEST(cli_options, a_list_does_not_swallow_the_words_behind_it) {
  command_line line;
  std::string positional;
  line.app.add_option("word", positional);
  auto given = line.parse({"--discovery-seeds", "a:1", "put"});
  ASSERT_TRUE(given);
  ASSERT_EQ(given->size(), 1u);
  EXPECT_EQ(given->front().text, "a:1");
  EXPECT_EQ(positional, "put");
}

TEST(cli_options, an_unknown_flag_and_a_missing_value_are_refused) {
  EXPECT_FALSE(command_line().parse({"--pool-sise", "1GiB"}));
  EXPECT_FALSE(command_line().parse({"--pool-size"}));
}

TEST(cli_options, an_empty_value_arrives_as_empty_text) {
  command_line line;
  auto given = line.parse({"--node-name", ""});
  ASSERT_TRUE(given);
  ASSERT_EQ(given->size(), 1u);
  EXPECT_EQ(given->front().text, "");
}

TEST(cli_options, prefixes_choose_the_options_of_a_program) {
  const std::string_view prefixes[] = {"client.", "log."};
  command_line line(prefixes);
  EXPECT_TRUE(line.parse({"--client-timeout", "1s"}));
  EXPECT_FALSE(command_line(prefixes).parse({"--pool-size", "1GiB"}));
}

TEST(cli_options, help_lists_every_flag_with_its_form) {
  command_line line;
  const auto help = line.app.help();
  for (const auto& opt : options())
    EXPECT_NE(help.find(opt.flag()), std::string::npos) << opt.name;
  EXPECT_NE(help.find("--pool-size SIZE"), std::string::npos) << help;
  EXPECT_NE(help.find("[pool]"), std::string::npos);
}

} // namespace
} // namespace peercache::config
