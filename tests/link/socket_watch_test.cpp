#include "link/socket_watch.hpp"

#include <chrono>
#include <condition_variable>
#include <gtest/gtest.h>
#include <memory>
#include <mutex>
#include <sys/socket.h>
#include <unistd.h>

namespace peercache::link {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

constexpr auto patience = 30s;

/// A socket_watch, and a count of how often it has reported news.
class socket_watch_test : public testing::Test {
protected:
  void SetUp() override {
    auto begun = socket_watch::begin([this] {
      const std::lock_guard guard(lock_);
      ++told_;
      came_.notify_all();
    });
    ASSERT_TRUE(begun);
    watch = std::move(*begun);
    int both[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, both), 0);
    here = net::unique_fd(both[0]);
    there = net::unique_fd(both[1]);
  }
  void TearDown() override { watch.reset(); }

  /// Waits until the watch has reported news more often than `before`. Returns how often it has.
  int more_than(int before) {
    std::unique_lock guard(lock_);
    EXPECT_TRUE(came_.wait_for(guard, patience, [&] { return told_ > before; }));
    return told_;
  }

  net::unique_fd here;
  net::unique_fd there;
  std::unique_ptr<socket_watch> watch;

private:
  std::mutex lock_;
  std::condition_variable came_;
  int told_ = 0;
};

TEST_F(socket_watch_test, tells_of_a_socket_that_has_news_when_it_is_added_and_later) {
  ASSERT_TRUE(watch->add(here.get()));
  const int writable = more_than(0);
  ASSERT_EQ(::write(there.get(), "x", 1), 1);
  more_than(writable);
}

TEST_F(socket_watch_test, tells_of_a_time_once_it_has_come_and_not_before) {
  const auto at = steady_clock::now() + 100ms;
  watch->look_at(at + 1h); // The call after this one replaces its time.
  watch->look_at(at);
  EXPECT_EQ(more_than(0), 1);
  EXPECT_GE(steady_clock::now(), at);
}

TEST_F(socket_watch_test, does_not_tell_of_a_socket_that_was_removed) {
  ASSERT_TRUE(watch->add(here.get()));
  const int writable = more_than(0);
  watch->remove(here.get());
  ASSERT_EQ(::write(there.get(), "x", 1), 1);
  const auto at = steady_clock::now() + 50ms;
  watch->look_at(at);
  EXPECT_EQ(more_than(writable), writable + 1);
  EXPECT_GE(steady_clock::now(), at);
}

} // namespace
} // namespace peercache::link
