#include "cli/process.hpp"

#include <csignal>
#include <gtest/gtest.h>
#include <unistd.h>

namespace peercache::cli {

namespace {

using std::chrono::milliseconds;

result<child_process> shell(const std::string& script, spawn_options options = {}) {
  options.arguments = {"/bin/sh", "-c", script};
  return child_process::spawn(options);
}

bool is_alive(pid_t pid) {
  return ::kill(pid, 0) == 0;
}

} // namespace

TEST(process, lines_come_one_by_one_and_then_the_end) {
  auto child = shell("printf 'one\\ntwo\\nhalf'");
  ASSERT_TRUE(child);
  EXPECT_EQ(*child->read_line(milliseconds(5000)), "one");
  EXPECT_EQ(*child->read_line(milliseconds(5000)), "two");
  auto end = child->read_line(milliseconds(5000));
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().code, errc::closed);
  EXPECT_EQ(child->wait(milliseconds(5000)), 0);
}

TEST(process, a_silent_process_is_waited_for_no_longer_than_said) {
  auto child = shell("exec sleep 60");
  ASSERT_TRUE(child);
  auto line = child->read_line(milliseconds(20));
  ASSERT_FALSE(line);
  EXPECT_EQ(line.error().code, errc::timed_out);
  EXPECT_EQ(child->wait(milliseconds(0)), std::nullopt);
}

TEST(process, the_exit_status_is_the_one_that_a_shell_shows) {
  auto failing = shell("exit 7");
  ASSERT_TRUE(failing);
  EXPECT_EQ(failing->wait(milliseconds(5000)), 7);
  auto killed = shell("exec sleep 60");
  ASSERT_TRUE(killed);
  killed->signal(SIGTERM);
  EXPECT_EQ(killed->wait(milliseconds(5000)), 128 + SIGTERM);
}

TEST(process, nothing_is_left_over_when_its_owner_lets_go) {
  pid_t pid = 0;
  {
    auto child = shell("exec sleep 60");
    ASSERT_TRUE(child);
    pid = child->pid();
    EXPECT_TRUE(is_alive(pid));
  }
  EXPECT_FALSE(is_alive(pid));
}

TEST(process, a_program_that_is_not_there_is_an_error_and_no_process) {
  auto child = child_process::spawn({.arguments = {"/no/such/program"}});
  ASSERT_FALSE(child);
  EXPECT_EQ(child.error().code, errc::io_failed);
}

TEST(process, the_environment_is_the_parents_with_what_was_added_and_without_what_was_left) {
  ::setenv("LEFT_BEHIND_BY_TEST", "1", 1);
  auto child = shell("echo \"$ADDED|$LEFT_BEHIND_BY_TEST|$HOME_OF_NOBODY\"",
                     {.environment = {{"ADDED", "yes"}}, .without_environment = "LEFT_BEHIND"});
  ASSERT_TRUE(child);
  EXPECT_EQ(*child->read_line(milliseconds(5000)), "yes||");
  ::unsetenv("LEFT_BEHIND_BY_TEST");
}

TEST(process, signals_that_the_parent_blocks_reach_the_child) {
  sigset_t blocked;
  sigset_t before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  auto child = shell("exec sleep 60");
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ASSERT_TRUE(child);
  child->signal(SIGTERM);
  EXPECT_EQ(child->wait(milliseconds(5000)), 128 + SIGTERM);
}

} // namespace peercache::cli
