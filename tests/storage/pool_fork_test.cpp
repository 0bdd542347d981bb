#include "storage/pool_memory.hpp"

#include "tests/support/qemu_user.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <optional>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace peercache::storage::pool_fork_test {
namespace {

pool_memory_options options_for(const std::string& test) {
  return {.name_prefix = "peercache-test-" + test + "-" + std::to_string(::getpid()),
          .node_name = "node",
          .owner = incarnation::random(),
          .size_bytes = 1u << 20};
}

/// A pipe by which one process tells another that it has reached a point. When the sender ends
/// first, `heard` returns false.
class told {
public:
  told() { EXPECT_EQ(::pipe(ends_), 0); }
  ~told() {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  void say() const { [[maybe_unused]] auto written = ::write(ends_[1], "y", 1); }
  bool heard() const {
    char said = 0;
    return ::read(ends_[0], &said, 1) == 1;
  }

private:
  int ends_[2] = {-1, -1};
};

TEST(pool_fork, a_killed_client_is_dead_though_its_forked_child_lives) {
  if (under_qemu_user())
    GTEST_SKIP() << "qemu-user does not keep a mapping from a child (MADV_DONTFORK)";
  auto owner = pool_memory::create(options_for("fork"));
  ASSERT_TRUE(owner);
  const told both_live;
  const told test_is_over;
  const auto engine = ::fork();
  if (engine == 0) {
    auto attached = pool_memory::attach(owner->name(), owner->owner());
    if (!attached || !attached->lock_session(3) || ::fork() == 0) {
      both_live.say();
      test_is_over.heard();
      ::_exit(0);
    }
    for (;;)
      ::pause();
  }
  ASSERT_TRUE(both_live.heard());
  EXPECT_FALSE(owner->session_is_dead(3));
  ::kill(engine, SIGKILL);
  ::waitpid(engine, nullptr, 0);
  EXPECT_TRUE(owner->session_is_dead(3));
  test_is_over.say();
}

TEST(pool_fork, a_child_takes_no_name_no_lock_and_no_bytes_from_its_parent) {
  auto owner = pool_memory::create(options_for("child"));
  ASSERT_TRUE(owner);
  auto client = pool_memory::attach(owner->name(), owner->owner());
  ASSERT_TRUE(client);
  ASSERT_TRUE(client->lock_session(3));
  owner->slots().bytes({5}, 1)[0] = std::byte{9};
  const auto child = ::fork();
  if (child == 0) {
    { auto dropped = std::move(*client); }
    { auto dropped = std::move(*owner); }
    ::_exit(0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(std::filesystem::exists("/dev/shm" + owner->name()));
  EXPECT_FALSE(owner->session_is_dead(3));
  EXPECT_EQ(client->slots().bytes({5}, 1)[0], std::byte{9});
}

} // namespace
} // namespace peercache::storage::pool_fork_test
