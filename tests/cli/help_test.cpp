// Tests of help, examples, completion and documents, which are generated from the commands.

#include "cli/command.hpp"
#include "cli/completion.hpp"
#include "cli/documents.hpp"
#include "cli/examples.hpp"
#include "cli/usage.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fmt/format.h>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <iterator>
#include <sstream>

namespace peercache::cli::help_test {

namespace {

void expect_has(const std::string& said, const std::string& part) {
  EXPECT_NE(said.find(part), std::string::npos) << said;
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Calls `visit` for each command that the help shows, with the words that call the command.
void visit_all(const CLI::App& app, const std::string& above,
               const std::function<void(const CLI::App&, const std::string&)>& visit) {
  for (const auto* command : shown_commands(app)) {
    const auto path = above + command->get_name();
    visit(*command, path);
    visit_all(*command, path + " ", visit);
  }
}

/// Runs a line in a shell. Returns its output on stdout and stderr.
std::string shell(const std::string& line) {
  auto* pipe = ::popen(("exec 2>&1; " + line).c_str(), "r");
  std::string text;
  char bytes[512];
  while (pipe != nullptr) {
    const auto more = std::fread(bytes, 1, sizeof bytes, pipe);
    if (more == 0)
      break;
    text.append(bytes, more);
  }
  return pipe != nullptr && ::pclose(pipe) == 0 ? text : "failed: " + text;
}

std::string file_of(const std::string& name, const std::string& text) {
  const auto path = testing::TempDir() + name;
  std::ofstream(path) << text;
  return path;
}

std::string run_and_capture(std::vector<const char*> words, exit_code expected) {
  words.insert(words.begin(), "peercache");
  testing::internal::CaptureStdout();
  EXPECT_EQ(run(static_cast<int>(words.size()), words.data()), expected);
  return testing::internal::GetCapturedStdout();
}

/// Returns the words that bash offers to complete the end of `line`.
std::string completed(const std::string& line) {
  command_line all;
  add_commands(all);
  const auto script = file_of("peercache-completion.sh", bash_completion(all.app));
  return shell("bash -c 'source " + script + "; COMP_WORDS=(" + line +
               "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _peercache; echo \"${COMPREPLY[*]}\"'");
}

} // namespace

TEST(examples, every_command_has_one_and_its_help_shows_it) {
  command_line line;
  add_commands(line);
  finish(line);
  visit_all(line.app, "", [](const CLI::App& command, const std::string& path) {
    expect_has(command.help(), "Examples:\n  peercache " + path);
  });
}

TEST(examples, each_is_a_line_that_the_program_understands) {
  for (const auto& each : examples()) {
    std::istringstream rest(fmt::format("peercache {} {}", each.command, each.rest));
    std::vector<std::string> words{std::istream_iterator<std::string>(rest), {}};
    std::vector<const char*> arguments;
    for (const auto& word : words)
      arguments.push_back(word.c_str());
    command_line line;
    add_commands(line);
    finish(line);
    const auto understood =
        parse_words(line.app, static_cast<int>(arguments.size()), arguments.data());
    EXPECT_TRUE(understood) << rest.str() << ": " << understood.error().message;
  }
}

TEST(help, of_a_command_is_that_of_the_command_itself) {
  EXPECT_EQ(run_and_capture({"help", "key", "explain"}, exit_code::ok),
            run_and_capture({"key", "explain", "--help"}, exit_code::ok));
  EXPECT_EQ(run_and_capture({"help"}, exit_code::ok), run_and_capture({"--help"}, exit_code::ok));
  testing::internal::CaptureStderr();
  run_and_capture({"help", "statsu"}, exit_code::usage);
  expect_has(testing::internal::GetCapturedStderr(), "did you mean 'status'?");
}

TEST(completion, knows_commands_options_and_their_words) {
  EXPECT_EQ(completed("peercache stat"), "status\n");
  EXPECT_EQ(completed("peercache key e"), "explain\n");
  EXPECT_EQ(completed("peercache disk evict --dry"), "--dry-run\n");
  EXPECT_EQ(completed("peercache key --node a locate --dig"), "--digest\n")
      << "the value of an option is no command";
  EXPECT_EQ(completed("peercache status -o \"\""), "table json\n");
  EXPECT_EQ(completed("peercache demo --data-plane v"), "verbs\n");
  EXPECT_EQ(completed("peercache raw"), "\n") << "hidden commands stay hidden";
}

TEST(documents, the_list_of_commands_is_up_to_date) {
  for (const auto& document : documents())
    EXPECT_EQ(text_of(std::string(PEERCACHE_SOURCE_DIR "/") + document.path), document.text)
        << "write it again: peercache_cli_docs docs .";
}

TEST(documents, the_manual_has_every_command_and_option_and_man_reads_it_without_a_warning) {
  const auto pages = manual_pages();
  ASSERT_EQ(pages.size(), 2u);
  command_line line;
  add_commands(line);
  visit_all(line.app, "", [&](const CLI::App& command, const std::string& path) {
    auto heading = path;
    for (auto at = heading.find('-'); at != std::string::npos; at = heading.find('-', at + 2))
      heading.insert(at, "\\");
    expect_has(pages[0].text, "\n.SS " + heading + "\n");
    EXPECT_FALSE(command.get_description().empty()) << path;
  });
  expect_has(pages[1].text, "\\-\\-pool\\-size");
  if (shell("man --version").starts_with("failed"))
    GTEST_SKIP() << "there is no man here";
  for (const auto& page : pages) {
    const auto file = file_of(page.path, page.text);
    EXPECT_EQ(shell("LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings=w -l " + file + " >/dev/null"), "");
  }
}

TEST(config_command, shows_checks_and_writes_what_a_node_would_take) {
  const auto path = testing::TempDir() + "peercache-config-command.toml";
  std::remove(path.c_str());
  run_and_capture({"config", "init", path.c_str()}, exit_code::ok);
  EXPECT_EQ(text_of(path), text_of(PEERCACHE_SOURCE_DIR "/config/peercache.toml"));
  testing::internal::CaptureStderr();
  run_and_capture({"config", "init", path.c_str()}, exit_code::failed);
  expect_has(testing::internal::GetCapturedStderr(), "File exists");
  EXPECT_EQ(run_and_capture({"config", "check", path.c_str()}, exit_code::ok),
            "configuration ok\n");
  std::ofstream(path) << "[pool]\nsize = \"3GiB\"\n";
  expect_has(run_and_capture({"config", "show", path.c_str()}, exit_code::ok), "size = \"3GiB\"");
  std::ofstream(path) << "[pool]\nsiez = \"3GiB\"\n";
  testing::internal::CaptureStderr();
  run_and_capture({"config", "check", path.c_str()}, exit_code::usage);
  expect_has(testing::internal::GetCapturedStderr(), "pool.size");
  std::remove(path.c_str());
}

TEST(addresses, several_are_read_in_their_order_and_a_wrong_one_is_named) {
  const auto two = parse_node_addresses("a:1,[::1]:2");
  ASSERT_TRUE(two);
  ASSERT_EQ(two->size(), 2u);
  EXPECT_EQ((*two)[0].host, "a");
  EXPECT_EQ((*two)[1].host, "::1");
  EXPECT_EQ((*two)[1].port, 2);
  EXPECT_FALSE(parse_node_addresses("a:1,"));
  expect_has(parse_node_addresses("a:1,b:x").error().message, "'b:x'");
}

} // namespace peercache::cli::help_test
