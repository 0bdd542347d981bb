#include "common/forks.hpp"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace peercache::forks_test {
namespace {

/// Runs `body` in a forked child process. Returns what `body` returned.
template <class Body>
bool in_child(Body body) {
  const auto child = ::fork();
  if (child == 0)
    ::_exit(body() ? 0 : 1);
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status == 0;
}

bool is_open(int file) {
  return ::fcntl(file, F_GETFD) != -1;
}

TEST(forks, a_child_is_not_the_home_of_what_its_parent_made) {
  const home_process made;
  EXPECT_TRUE(made.is_here());
  EXPECT_TRUE(in_child([&] { return !made.is_here(); }));
  EXPECT_TRUE(made.is_here());
  EXPECT_TRUE(in_child([] { return home_process{}.is_here(); }));
  EXPECT_TRUE(in_child([] {
    const home_process childs;
    return in_child([&] { return !childs.is_here(); }) && childs.is_here();
  }));
}

TEST(forks, a_file_is_closed_in_children_and_another_with_its_number_is_not) {
  const auto file = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ASSERT_TRUE(is_open(file));
  EXPECT_TRUE(in_child([&] { return is_open(file); }));
  close_in_children(file);
  EXPECT_TRUE(in_child([&] { return !is_open(file); }));
  EXPECT_TRUE(is_open(file));
  close_noted(file);
  EXPECT_FALSE(is_open(file));
  const auto next = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(next, file);
  EXPECT_TRUE(in_child([&] { return is_open(next); }));
  ::close(next);
}

} // namespace
} // namespace peercache::forks_test
