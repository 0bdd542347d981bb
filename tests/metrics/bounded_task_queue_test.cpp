#include "metrics/bounded_task_queue.hpp"

#include <atomic>
#include <gtest/gtest.h>
#include <latch>

namespace peercache::metrics {
namespace {

TEST(bounded_task_queue, a_full_queue_makes_the_caller_do_the_work) {
  bounded_task_queue queue{1, 1};
  std::latch started{1}, release{1};
  queue.enqueue([&] {
    started.count_down();
    release.wait();
  });
  started.wait(); // The only thread is busy now, so the next task waits and the one after does not.
  std::thread::id waiter, inliner;
  queue.enqueue([&] { waiter = std::this_thread::get_id(); });
  queue.enqueue([&] { inliner = std::this_thread::get_id(); });
  EXPECT_EQ(inliner, std::this_thread::get_id());
  release.count_down();
  queue.shutdown();
  EXPECT_NE(waiter, std::thread::id{});
  EXPECT_NE(waiter, std::this_thread::get_id());
}

TEST(bounded_task_queue, shutdown_runs_what_was_accepted) {
  bounded_task_queue queue{2, 100};
  std::atomic<int> done{0};
  for (int i = 0; i < 100; ++i)
    queue.enqueue([&] { ++done; });
  queue.shutdown();
  EXPECT_EQ(done, 100);
}

} // namespace
} // namespace peercache::metrics
