#include "cli/command.hpp"

#include <gtest/gtest.h>
#include <initializer_list>

namespace peercache::cli::command_test {

namespace {

exit_code run_words(std::initializer_list<const char*> words) {
  std::vector<const char*> arguments = {"peercache"};
  arguments.insert(arguments.end(), words);
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  auto code = run(static_cast<int>(arguments.size()), arguments.data());
  testing::internal::GetCapturedStderr();
  testing::internal::GetCapturedStdout();
  return code;
}

std::string output_of(std::initializer_list<const char*> words) {
  std::vector<const char*> arguments = {"peercache"};
  arguments.insert(arguments.end(), words);
  testing::internal::CaptureStdout();
  run(static_cast<int>(arguments.size()), arguments.data());
  return testing::internal::GetCapturedStdout();
}

} // namespace

TEST(command, a_page_that_nobody_could_be_asked_about_is_neither_there_nor_gone) {
  EXPECT_EQ(exit_code_of_pages(2, 2, 0), exit_code::ok);
  EXPECT_EQ(exit_code_of_pages(2, 1, 0), exit_code::failed);
  EXPECT_EQ(exit_code_of_pages(2, 1, 1), exit_code::degraded);
  EXPECT_EQ(exit_code_of_pages(2, 0, 1), exit_code::degraded);
  EXPECT_EQ(exit_code_of_pages(2, 0, 2), exit_code::unreachable);
}

TEST(command, a_line_that_makes_no_sense_ends_with_2) {
  EXPECT_EQ(run_words({}), exit_code::usage);
  EXPECT_EQ(run_words({"fly"}), exit_code::usage);
  EXPECT_EQ(run_words({"version", "-o", "xml"}), exit_code::usage);
  EXPECT_EQ(run_words({"get"}), exit_code::usage);
  EXPECT_EQ(run_words({"key"}), exit_code::usage);
  EXPECT_EQ(run_words({"version", "--timeout", "soon"}), exit_code::usage);
  EXPECT_EQ(run_words({"ping", "--node", "here:0"}), exit_code::usage);
  EXPECT_EQ(run_words({"get", "--digest", "abc"}), exit_code::usage);
}

TEST(command, help_is_no_failure) {
  EXPECT_EQ(run_words({"--help"}), exit_code::ok);
}

TEST(command, version_answers_in_json_wherever_the_option_stands) {
  for (auto words : {std::initializer_list<const char*>{"version", "-o", "json"},
                     std::initializer_list<const char*>{"-o", "json", "version"}}) {
    auto answer = nlohmann::json::parse(output_of(words));
    EXPECT_EQ(answer["version"], PEERCACHE_VERSION);
  }
}

TEST(command, version_names_the_formats_the_libraries_and_the_commit) {
  const auto answer = nlohmann::json::parse(output_of({"version", "-o", "json"}));
  for (const char* format : {"wire_version", "tcp_wire_version", "pool_layout_version",
                             "record_version", "folder_format", "cleared_magic"})
    EXPECT_FALSE(answer["formats"].value(format, "").empty()) << format;
  for (const char* library : {"caf", "spdlog", "openssl", "rocksdb"})
    EXPECT_FALSE(answer["libraries"].value(library, "").empty()) << library;
  EXPECT_EQ(answer["commit"].get<std::string>().size() % 40, 0u) << "all of it, or none";
}

TEST(command, addresses_are_read_with_and_without_a_port) {
  EXPECT_EQ(parse_node_address("host7")->port, 31998);
  EXPECT_EQ(parse_node_address("host7:1234")->port, 1234);
  EXPECT_EQ(parse_node_address("host7:1234")->host, "host7");
  EXPECT_EQ(parse_node_address("[::1]:99")->host, "::1");
  EXPECT_EQ(parse_node_address("[::1]:99")->port, 99);
  EXPECT_EQ(parse_node_address("[::1]")->host, "::1");
}

TEST(command, addresses_that_are_none_are_refused) {
  for (const char* text : {"", ":1", "host:", "host:x", "host:0", "host:65536", "[::1", "[::1]x:4"})
    EXPECT_FALSE(parse_node_address(text)) << text;
}

TEST(command, keys_depend_on_their_namespace_and_digests_do_not) {
  key_arguments plain{.keys = {"k"}};
  key_arguments named{.keys = {"k"}, .space = {"model", "rev"}};
  ASSERT_TRUE(plain.parse());
  EXPECT_NE(plain.parse()->front(), named.parse()->front());
  key_arguments digest{
      .keys = {to_string(plain.parse()->front())}, .space = {"model"}, .digests = true};
  ASSERT_TRUE(digest.parse());
  EXPECT_EQ(digest.parse()->front(), plain.parse()->front());
}

TEST(command, a_digest_with_a_foreign_letter_is_refused) {
  key_arguments digest{.keys = {std::string(63, '0') + "g"}, .digests = true};
  ASSERT_FALSE(digest.parse());
  EXPECT_EQ(digest.parse().error().code, errc::invalid_argument);
}

TEST(command, each_kind_of_failure_has_its_exit_code) {
  EXPECT_EQ(exit_code_of(errc::invalid_argument), exit_code::usage);
  EXPECT_EQ(exit_code_of(errc::unreachable), exit_code::unreachable);
  EXPECT_EQ(exit_code_of(errc::timed_out), exit_code::unreachable);
  EXPECT_EQ(exit_code_of(errc::refused), exit_code::failed);
}

} // namespace peercache::cli::command_test
