#include "cli/doctor/check_ids.hpp"
#include "cli/doctor/probe.hpp"
#include "tests/cli/doctor/doctor_checks.hpp"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <regex>
#include <set>
#include <stdexcept>
#include <sys/wait.h>
#include <unistd.h>

namespace peercache::cli::probe_test {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds generous{20'000};

probe probe_of(const std::string& group, std::function<std::vector<check>()> look) {
  return {group, "thing of " + group, "mend " + group, std::move(look)};
}

/// Returns a probe that never ends; its process writes its id to the file `note`.
probe hanging(const std::string& group, const std::filesystem::path& note) {
  return probe_of(group, [note]() -> std::vector<check> {
    std::ofstream(note) << ::getpid();
    for (;;)
      ::pause();
  });
}

check simple(const std::string& name) {
  return {name, verdict::ok, "found", "", "data-plane"};
}

} // namespace

TEST(doctor_probe, checks_come_back_whole_and_in_the_order_of_the_probes) {
  const check odd{"näme", verdict::warn, "two\nlines \xff \"quoted\"", "do this", "memlock"};
  const auto groups =
      look_at_all(std::vector{probe_of("a",
                                       [] {
                                         return std::vector{simple("1"), simple("2")};
                                       }),
                              probe_of("b", [&] { return std::vector{odd}; }),
                              probe_of("a", [] { return std::vector{simple("3")}; })},
                  generous);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].name, "a");
  ASSERT_EQ(groups[0].checks.size(), 3u);
  EXPECT_EQ(groups[0].checks[2].name, "3");
  const auto& back = groups[1].checks.at(0);
  EXPECT_EQ(back.name, odd.name);
  EXPECT_EQ(back.given, odd.given);
  EXPECT_EQ(back.found, "two\nlines \xef\xbf\xbd \"quoted\"");
  EXPECT_EQ(back.fix, odd.fix);
  EXPECT_EQ(back.id, odd.id);
}

TEST(doctor_probe, more_than_a_pipe_holds_comes_back) {
  const std::string much(300'000, 'x');
  const auto groups =
      look_at_all(std::vector{probe_of("a",
                                       [&] {
                                         return std::vector{check{much, verdict::ok, "", "", "x"}};
                                       })},
                  generous);
  EXPECT_EQ(groups.at(0).checks.at(0).name, much);
}

TEST(doctor_probe, one_that_hangs_fails_at_the_deadline_and_the_others_are_told) {
  const auto note = std::filesystem::path(testing::TempDir()) /
                    ("doctor-probe-hangs-" + std::to_string(::getpid()));
  constexpr milliseconds deadline(3000); // Long enough for the second probe on a busy machine.
  const auto begin = std::chrono::steady_clock::now();
  const auto groups = look_at_all(
      std::vector{hanging("disk", note), probe_of("b", [] { return std::vector{simple("1")}; })},
      deadline);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, deadline);
  const auto& given = groups.at(0).checks.at(0);
  EXPECT_EQ(given.id, check_ids::no_answer);
  EXPECT_EQ(given.given, verdict::fail);
  EXPECT_EQ(given.name, "thing of disk");
  EXPECT_TRUE(contains(given.found, "no answer within 3 s")) << given.found;
  EXPECT_EQ(given.fix, "mend disk");
  EXPECT_EQ(groups.at(1).checks.at(0).name, "1");
  // Checks that the process of the hanging probe was killed.
  pid_t pid = 0;
  std::ifstream(note) >> pid;
  ASSERT_GT(pid, 0);
  const auto until = std::chrono::steady_clock::now() + generous;
  while (::kill(pid, 0) == 0 && std::chrono::steady_clock::now() < until)
    ::waitpid(pid, nullptr, 0);
  EXPECT_NE(::kill(pid, 0), 0);
  std::filesystem::remove(note);
}

TEST(doctor_probe, one_that_dies_or_throws_fails_with_what_is_known) {
  const auto groups = look_at_all(
      std::vector{
          probe_of("dies", []() -> std::vector<check> { ::_exit(1); }),
          probe_of("throws", []() -> std::vector<check> { throw std::runtime_error("no luck"); })},
      generous);
  for (const auto& group : groups) {
    EXPECT_EQ(group.checks.at(0).given, verdict::fail) << group.name;
    EXPECT_EQ(group.checks.at(0).id, check_ids::no_answer);
    EXPECT_EQ(group.checks.at(0).fix, "mend " + group.name);
  }
  EXPECT_TRUE(contains(groups.at(1).checks.at(0).found, "no luck"));
}

TEST(doctor_probe, what_a_probe_changes_stays_in_its_process) {
  int value = 1;
  const auto groups = look_at_all(std::vector{probe_of("a",
                                                       [&] {
                                                         value = 2;
                                                         return std::vector{simple("1")};
                                                       })},
                                  generous);
  EXPECT_EQ(groups.at(0).checks.at(0).name, "1");
  EXPECT_EQ(value, 1);
}

/// Compares the ids of checks with docs/doctor.md, whose tables have ids in backticks in their
/// first column.
TEST(doctor_check_ids, stand_in_the_documents_each_of_them_and_no_other) {
  std::ifstream page(PEERCACHE_SOURCE_DIR "/docs/doctor.md");
  const std::regex row("^\\| `([a-z0-9-]+)` .*");
  std::multiset<std::string> documented;
  std::smatch match;
  for (std::string line; std::getline(page, line);)
    if (std::regex_match(line, match, row))
      documented.insert(match[1]);
  EXPECT_EQ(documented, std::multiset<std::string>(check_ids::all.begin(), check_ids::all.end()));
}

} // namespace peercache::cli::probe_test
