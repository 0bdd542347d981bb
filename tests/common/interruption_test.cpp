#include "common/interruption.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace peercache {
namespace {

using clock = interruption::clock;

void wait_until(clock::time_point due) {
  while (clock::now() < due)
    std::this_thread::yield();
}

clock::time_point never() {
  return clock::now() + std::chrono::hours(1);
}

TEST(interruption, a_thread_without_one_waits_undisturbed) {
  const auto until = never();
  EXPECT_FALSE(interruption::possible());
  EXPECT_FALSE(interruption::look());
  EXPECT_EQ(interruption::next_look(until), until);
}

TEST(interruption, looks_when_a_look_is_due_and_not_before) {
  int looks = 0;
  const interruption mine{[&] {
    ++looks;
    return false;
  }};
  const auto due = interruption::next_look(never());
  EXPECT_LE(due, clock::now() + interruption::interval);
  interruption::look();
  EXPECT_TRUE(looks == 0 || clock::now() >= due);
  wait_until(due);
  interruption::look();
  EXPECT_EQ(looks, 1);
  EXPECT_GT(interruption::next_look(never()), due);
}

TEST(interruption, ends_a_wait_soon_after_its_reason_came) {
  std::mutex lock;
  std::condition_variable changed;
  const interruption mine{[] { return true; }};
  const auto begin = clock::now();
  std::unique_lock guard{lock};
  EXPECT_FALSE(wait_interruptibly(guard, changed, never(), [] { return false; }));
  EXPECT_LT(clock::now() - begin, std::chrono::minutes(1));
  EXPECT_TRUE(interruption::given());
  EXPECT_FALSE(wait_interruptibly(guard, changed, never(), [] { return false; }))
      << "a wait that begins later ends at once";
  EXPECT_TRUE(guard.owns_lock());
}

TEST(interruption, looks_without_the_lock_of_the_wait) {
  std::mutex lock;
  std::condition_variable changed;
  bool free = false;
  const interruption mine{[&] {
    free = lock.try_lock();
    if (free)
      lock.unlock();
    return true;
  }};
  std::unique_lock guard{lock};
  wait_interruptibly(guard, changed, never(), [] { return false; });
  EXPECT_TRUE(free);
}

TEST(interruption, a_wait_without_a_reason_ends_with_what_it_waits_for) {
  std::mutex lock;
  std::condition_variable changed;
  bool done = false;
  int looks = 0;
  const interruption mine{[&] {
    std::lock_guard guard{lock};
    done = ++looks == 3;
    return false;
  }};
  std::unique_lock guard{lock};
  EXPECT_TRUE(wait_interruptibly(guard, changed, never(), [&] { return done; }));
  EXPECT_EQ(looks, 3);
}

TEST(interruption, a_wait_ends_at_its_deadline_before_the_next_look) {
  std::mutex lock;
  std::condition_variable changed;
  const interruption mine{[] { return false; }};
  std::unique_lock guard{lock};
  EXPECT_FALSE(wait_interruptibly(guard, changed, clock::now(), [] { return false; }));
}

TEST(interruption, belongs_to_one_thread_and_may_hold_another_one) {
  const interruption outer{[] { return false; }};
  bool elsewhere = true;
  std::thread([&] { elsewhere = interruption::possible(); }).join();
  EXPECT_FALSE(elsewhere);
  {
    const interruption inner{[] { return true; }};
    wait_until(interruption::next_look(never()));
    EXPECT_TRUE(interruption::look());
  }
  EXPECT_TRUE(interruption::possible());
  EXPECT_FALSE(interruption::given());
}

} // namespace
} // namespace peercache
