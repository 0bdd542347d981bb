#include "common/log.hpp"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iterator>
#include <spdlog/details/log_msg.h>
#include <string>
#include <string_view>
#include <sys/resource.h>
#include <unistd.h>

namespace peercache {
namespace {

using testing::MatchesRegex;

std::string line_of(const std::string& node, bool json, spdlog::level::level_enum level,
                    std::string_view text) {
  // The time 2026-11-20T12:00:00.123Z.
  spdlog::log_clock::time_point time{std::chrono::milliseconds(1795176000123)};
  spdlog::details::log_msg record(time, {}, "", level, {text.data(), text.size()});
  spdlog::memory_buf_t line;
  make_log_formatter(node, json)->format(record, line);
  return {line.data(), line.size()};
}

TEST(log, a_line_has_time_level_node_and_message) {
  EXPECT_EQ(line_of("node-1", false, spdlog::level::info, "pool: 7 bytes"),
            "2026-11-20T12:00:00.123Z info node-1 pool: 7 bytes\n");
}

TEST(log, levels_have_our_names) {
  EXPECT_EQ(line_of("n", false, spdlog::level::warn, "m"), "2026-11-20T12:00:00.123Z warn n m\n");
  EXPECT_EQ(line_of("n", false, spdlog::level::err, "m"), "2026-11-20T12:00:00.123Z error n m\n");
}

TEST(log, a_json_line_escapes_what_must_be) {
  EXPECT_EQ(line_of("a\"b", true, spdlog::level::debug, "x \\ \"y\"\n\x01"),
            "{\"time\":\"2026-11-20T12:00:00.123Z\",\"level\":\"debug\",\"node\":\"a\\\"b\","
            "\"message\":\"x \\\\ \\\"y\\\"\\n\\u0001\"}\n");
}

TEST(log, a_message_cannot_forge_a_second_line) {
  EXPECT_EQ(line_of("n", false, spdlog::level::info, "a\nb\r\x1b[31m"),
            "2026-11-20T12:00:00.123Z info n a\\nb\\u000d\\u001b[31m\n");
}

TEST(log, a_clone_of_the_format_is_the_same) {
  EXPECT_NE(make_log_formatter("n", true)->clone(), nullptr);
  spdlog::details::log_msg record({}, {}, "", spdlog::level::info, "m");
  spdlog::memory_buf_t line;
  make_log_formatter("n", false)->clone()->format(record, line);
  EXPECT_EQ(std::string(line.data(), line.size()), "1970-01-01T00:00:00.000Z info n m\n");
}

TEST(log, goes_to_stderr_from_the_level_on_that_was_asked_for) {
  auto previous = spdlog::default_logger();
  testing::internal::CaptureStderr();
  init_log("node-1", "warn", false);
  log::info("unheard");
  log::warn("heard {}", 1);
  spdlog::set_default_logger(previous);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              MatchesRegex("....-..-..T..:..:..\\....Z warn node-1 heard 1\n"));
}

TEST(log, the_level_changes_while_it_runs_and_an_unknown_one_changes_nothing) {
  auto previous = spdlog::default_logger();
  testing::internal::CaptureStderr();
  init_log("node-1", "info", false);
  EXPECT_EQ(log_level(), "info");
  log::debug("unheard");
  EXPECT_TRUE(set_log_level("debug"));
  EXPECT_EQ(log_level(), "debug");
  log::debug("heard");
  EXPECT_FALSE(set_log_level("loud"));
  EXPECT_FALSE(set_log_level(""));
  EXPECT_EQ(log_level(), "debug");
  EXPECT_TRUE(set_log_level("off"));
  log::error("unheard");
  EXPECT_EQ(log_level(), "off");
  spdlog::set_default_logger(previous);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), MatchesRegex(".*Z debug node-1 heard\n"));
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(log, goes_to_a_file_that_is_opened_again_under_its_path) {
  const auto folder =
      std::filesystem::path(testing::TempDir()) / ("log-file-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const auto path = folder / "node.log";
  std::ofstream(path) << "before\n";
  auto previous = spdlog::default_logger();
  init_log("node-1", "info", false);
  EXPECT_FALSE(*reopen_log()) << "there is no file";
  const auto missing = log_to_file(folder / "no folder" / "node.log", "node-1", false);
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message,
              MatchesRegex(".*no folder/node.log: No such file.*errno 2.*"));
  testing::internal::CaptureStderr();
  ASSERT_TRUE(log_to_file(path, "node-1", false));
  log::info("first");
  std::filesystem::rename(path, folder / "old");
  log::info("second");
  EXPECT_TRUE(*reopen_log());
  log::info("third");
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  EXPECT_FALSE(reopen_log()) << "a folder is no file";
  log::info("unseen"); // Goes into the removed file.
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  std::filesystem::remove(path);
  EXPECT_TRUE(*reopen_log());
  log::info("fourth");
  spdlog::set_default_logger(previous);
  EXPECT_THAT(text_of(folder / "old"),
              MatchesRegex("before\n.*Z info node-1 first\n.*Z info node-1 second\n"));
  EXPECT_THAT(text_of(path), MatchesRegex("[^\n]*Z info node-1 fourth\n"));
  std::filesystem::remove_all(folder);
}

TEST(log, a_line_that_the_file_does_not_take_goes_to_stderr) {
  auto previous = spdlog::default_logger();
  testing::internal::CaptureStderr();
  init_log("node-1", "info", true);
  ASSERT_TRUE(log_to_file("/dev/full", "node-1", true));
  log::info("kept");
  spdlog::set_default_logger(previous);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              MatchesRegex("\\{.*\"node\":\"node-1\",\"message\":\"kept\"\\}\n"));
}

/// While the object lives, files that this process writes can grow to this many bytes only. A write
/// beyond that is cut short or fails, as on a full disk.
class file_size_limit {
public:
  explicit file_size_limit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~file_size_limit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  file_size_limit(const file_size_limit&) = delete;
  file_size_limit& operator=(const file_size_limit&) = delete;

private:
  rlimit before_{};
  void (*handler_)(int);
};

TEST(log, a_line_that_was_cut_short_ends_where_the_next_one_begins) {
  const auto path = testing::TempDir() + "log-cut-" + std::to_string(::getpid());
  auto previous = spdlog::default_logger();
  testing::internal::CaptureStderr();
  init_log("node-1", "info", false);
  ASSERT_TRUE(log_to_file(path, "node-1", false));
  log::info("first");
  const auto whole = std::filesystem::file_size(path);
  {
    const file_size_limit full(whole);
    log::info("of which nothing fits");
  }
  log::info("second");
  {
    const file_size_limit nearly_full(std::filesystem::file_size(path) + 5);
    log::info("of which five bytes fit");
    log::info("behind it");
  }
  log::info("third");
  spdlog::set_default_logger(previous);
  // Discards the captured stderr, which is a file that the limit has cut, too.
  testing::internal::GetCapturedStderr();
  EXPECT_THAT(text_of(path), MatchesRegex("[^\n]*first\n[^\n]*second\n[^\n]{5}\n[^\n]*third\n"));
  std::filesystem::remove(path);
}

TEST(log, an_unknown_level_counts_as_info) {
  auto previous = spdlog::default_logger();
  init_log("node-1", "loud", false);
  auto level = spdlog::default_logger()->level();
  init_log("node-1", "off", false);
  auto off = spdlog::default_logger()->level();
  spdlog::set_default_logger(previous);
  EXPECT_EQ(level, spdlog::level::info);
  EXPECT_EQ(off, spdlog::level::off);
}

} // namespace
} // namespace peercache
