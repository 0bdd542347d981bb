#include "client/handoff/loop_spin.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <thread>

namespace peercache::client {
namespace {

using std::chrono::microseconds;

TEST(loop_spin, is_for_machines_with_a_processor_for_each_thread_of_a_room) {
  for (unsigned processors = 1; processors < room_threads; ++processors)
    EXPECT_EQ(loop_spin(processors, microseconds(50)), microseconds(0));
  EXPECT_EQ(loop_spin(room_threads, microseconds(50)), microseconds(50));
}

TEST(loop_spin, counts_the_processors_that_a_thread_may_use) {
  std::thread([] {
    cpu_set_t set;
    ASSERT_EQ(::sched_getaffinity(0, sizeof set, &set), 0);
    EXPECT_EQ(own_processors(), static_cast<unsigned>(CPU_COUNT(&set)));
    int first = 0;
    while (!CPU_ISSET(first, &set))
      ++first;
    CPU_ZERO(&set);
    CPU_SET(first, &set);
    ASSERT_EQ(::sched_setaffinity(0, sizeof set, &set), 0);
    EXPECT_EQ(own_processors(), 1u);
  }).join();
}

} // namespace
} // namespace peercache::client
