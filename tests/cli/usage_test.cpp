#include "cli/usage.hpp"

#include "cli/command.hpp"
#include "config/cli_options.hpp"

#include <CLI/CLI.hpp>
#include <gtest/gtest.h>

namespace peercache::cli::usage_test {

namespace {

/// Returns what `peercache` prints on stderr for this command line; expects the exit code `usage`.
std::string refusal_of(std::vector<const char*> words) {
  words.insert(words.begin(), "peercache");
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  auto code = run(static_cast<int>(words.size()), words.data());
  testing::internal::GetCapturedStdout();
  auto said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(code, exit_code::usage) << said;
  return said;
}

/// Returns the error message of `peercache-node` for this command line; expects the error
/// `invalid_argument`.
std::string node_refusal_of(std::vector<const char*> words) {
  words.insert(words.begin(), "peercache-node");
  CLI::App app("a node", "peercache-node");
  config::cli_options flags(app);
  auto understood = parse_words(app, static_cast<int>(words.size()), words.data());
  if (understood)
    return "understood";
  EXPECT_EQ(understood.error().code, errc::invalid_argument);
  return understood.error().message;
}

#define EXPECT_SAYS(said, part) EXPECT_NE((said).find(part), std::string::npos) << (said)

} // namespace

TEST(usage, a_mistyped_command_is_named_with_the_nearest_one) {
  auto said = refusal_of({"pnig"});
  EXPECT_SAYS(said, "unknown command 'pnig': did you mean 'ping'?");
  EXPECT_SAYS(said, "`peercache --help`");
}

TEST(usage, every_command_is_found_again_after_one_typing_error) {
  const auto is_shown = [](const CLI::App* command) { return !command->get_group().empty(); };
  command_line line;
  add_commands(line);
  for (const auto* command : line.app.get_subcommands(is_shown)) {
    const auto name = command->get_name();
    auto typed = name;
    std::swap(typed[0], typed[1]);
    EXPECT_SAYS(refusal_of({typed.c_str()}), "did you mean '" + name + "'?");
  }
}

TEST(usage, the_beginning_of_a_command_is_enough_to_be_told_its_name) {
  EXPECT_SAYS(refusal_of({"stat"}), "unknown command 'stat': did you mean 'status'?");
  EXPECT_SAYS(refusal_of({"ex"}), "did you mean 'exists'?");
  EXPECT_SAYS(refusal_of({"un"}), "did you mean 'undrain'?");
  EXPECT_SAYS(refusal_of({"ver"}), "did you mean 'version'?");
  EXPECT_SAYS(refusal_of({"co"}), "did you mean 'config' or 'completion'?");
  EXPECT_SAYS(refusal_of({"disk", "ev"}), "did you mean 'evict'?");
}

TEST(usage, a_mistyped_command_below_another_one_is_sought_there) {
  auto said = refusal_of({"key", "locat", "x"});
  EXPECT_SAYS(said, "unknown command 'locat': did you mean 'locate'?");
  EXPECT_SAYS(said, "`peercache key --help`");
  EXPECT_SAYS(refusal_of({"locate", "x"}), "did you mean `peercache key locate`?");
}

TEST(usage, a_word_like_no_command_brings_the_list_without_the_hidden_ones) {
  auto said = refusal_of({"make-coffee"});
  EXPECT_SAYS(said, "unknown command 'make-coffee'; it is one of demo, ping, ");
  EXPECT_EQ(said.find("raw-server"), std::string::npos) << said;
}

TEST(usage, a_missing_command_brings_the_list) {
  EXPECT_SAYS(refusal_of({}), "a command is missing; it is one of demo, ping, ");
  EXPECT_SAYS(refusal_of({"key"}), "a command is missing; it is one of locate, explain");
}

TEST(usage, a_mistyped_option_is_named_with_the_nearest_one_and_without_its_value) {
  for (auto words : {std::vector<const char*>{"ping", "--cuont", "3"},
                     std::vector<const char*>{"ping", "--cuont=3"}}) {
    auto said = refusal_of(words);
    EXPECT_SAYS(said, "unknown option '--cuont': did you mean '--count'?");
    EXPECT_SAYS(said, "`peercache ping --help`");
  }
  EXPECT_SAYS(refusal_of({"get", "k", "--tiemout", "1s"}), "did you mean '--timeout'?");
  EXPECT_SAYS(refusal_of({"key", "locate", "k", "--nmaespace", "a"}), "'--namespace'?");
  EXPECT_SAYS(refusal_of({"exists", "--digset"}), "did you mean '--digest'?");
}

TEST(usage, an_option_that_stands_before_its_command_is_told_its_place) {
  EXPECT_SAYS(refusal_of({"--nodes", "3", "demo"}),
              "'--nodes' is an option of `peercache demo` and stands behind it");
  EXPECT_SAYS(refusal_of({"get", "k", "--count", "3"}), "is an option of `peercache ping`");
}

TEST(usage, a_word_too_many_and_a_short_option_get_no_wild_guess) {
  EXPECT_SAYS(refusal_of({"ping", "extra"}), "unexpected word 'extra': `peercache ping` takes no");
  auto said = refusal_of({"ping", "-z"});
  EXPECT_SAYS(said, "unknown option '-z'; ");
  EXPECT_EQ(said.find("did you mean"), std::string::npos) << said;
}

TEST(usage, a_bad_value_is_told_with_what_would_be_right) {
  EXPECT_SAYS(refusal_of({"ping", "-o", "xml"}), "--output: \"xml\" is none of table, json");
  EXPECT_SAYS(refusal_of({"ping", "--timeout", "soon"}), "--timeout: \"soon\" is not a duration");
  EXPECT_SAYS(refusal_of({"ping", "--timeout", "0s"}), "1ms to 3600s is allowed");
  EXPECT_SAYS(refusal_of({"ping", "-c", "0"}), "--count: 0 is out of bounds: 1 to 100000");
  EXPECT_SAYS(refusal_of({"ping", "-c", "few"}), "--count: \"few\" is not a whole number");
  EXPECT_SAYS(refusal_of({"demo", "--pool-size", "big"}), "--pool-size: \"big\" is not a size");
  EXPECT_SAYS(refusal_of({"get"}), "KEY is required");
}

TEST(usage, a_refusal_is_json_too_when_that_was_asked_for) {
  std::vector<const char*> words{"peercache", "-o", "json", "pnig"};
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  EXPECT_EQ(run(static_cast<int>(words.size()), words.data()), exit_code::usage);
  testing::internal::GetCapturedStderr();
  auto answer = nlohmann::json::parse(testing::internal::GetCapturedStdout());
  EXPECT_EQ(answer["error"]["code"], "invalid-argument");
  EXPECT_SAYS(answer["error"]["message"].get<std::string>(), "'ping'");
}

TEST(usage, the_nodes_program_suggests_among_the_options_of_the_table) {
  auto said = node_refusal_of({"--pool-siz", "3GiB"});
  EXPECT_EQ(said, "unknown option '--pool-siz': did you mean '--pool-size'? "
                  "`peercache-node --help` lists what there is");
  EXPECT_SAYS(node_refusal_of({"--pool-size=3GB", "--dve"}), "did you mean '--dev'?");
  EXPECT_SAYS(node_refusal_of({"--free-low", "0.1"}), "did you mean '--pool-free-low'?");
  const auto ambiguous = node_refusal_of({"--eviction", "lru"});
  EXPECT_EQ(ambiguous.find("did you mean"), std::string::npos)
      << "of the pool or of the disk: " << ambiguous;
  EXPECT_SAYS(node_refusal_of({"start"}), "unexpected word 'start'");
  EXPECT_SAYS(node_refusal_of({"--qwertyuiop"}), "unknown option '--qwertyuiop'; ");
  EXPECT_SAYS(node_refusal_of({"--pool-size"}), "--pool-size");
  EXPECT_EQ(node_refusal_of({"--pool-size", "3GiB", "--dev"}), "understood");
}

TEST(usage, the_help_of_every_command_says_where_the_common_options_are) {
  for (auto words : {std::vector<const char*>{"peercache", "ping", "--help"},
                     std::vector<const char*>{"peercache", "key", "locate", "--help"}}) {
    testing::internal::CaptureStdout();
    EXPECT_EQ(run(static_cast<int>(words.size()), words.data()), exit_code::ok);
    auto said = testing::internal::GetCapturedStdout();
    EXPECT_SAYS(said, "peercache --help");
    EXPECT_EQ(said.find("Exit codes"), std::string::npos) << said;
  }
}

TEST(usage, help_and_version_are_no_refusals) {
  for (const char* word : {"--help", "--version"}) {
    std::vector<const char*> words{"peercache", word};
    testing::internal::CaptureStdout();
    EXPECT_EQ(run(2, words.data()), exit_code::ok);
    EXPECT_SAYS(testing::internal::GetCapturedStdout(), "peercache");
  }
}

} // namespace peercache::cli::usage_test
