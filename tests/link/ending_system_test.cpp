#include "link/ending_system.hpp"

#include <future>
#include <gtest/gtest.h>
#include <thread>

namespace peercache::link {
namespace {

using std::chrono::milliseconds;

TEST(ending_system, that_takes_longer_is_left_to_its_thread) {
  std::promise<void> go;
  std::promise<std::thread::id> ended;
  auto where = ended.get_future();
  end_in_thread(std::packaged_task<void()>([may = go.get_future(), &ended]() mutable {
                  may.wait();
                  ended.set_value(std::this_thread::get_id());
                }),
                milliseconds(1));
  EXPECT_EQ(ending_systems(), 1);
  go.set_value();
  EXPECT_NE(where.get(), std::this_thread::get_id());
  while (ending_systems() != 0)
    std::this_thread::yield();
}

TEST(ending_system, that_takes_a_moment_is_waited_for) {
  bool ended = false;
  end_in_thread(std::packaged_task<void()>([&ended] { ended = true; }), milliseconds(10'000));
  EXPECT_TRUE(ended);
  EXPECT_EQ(ending_systems(), 0);
}

} // namespace
} // namespace peercache::link
