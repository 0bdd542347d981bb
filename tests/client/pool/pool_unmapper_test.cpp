#include "client/pool/pool_unmapper.hpp"
#include "tests/client/small_pool.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <thread>

namespace peercache::client {
namespace {

/// A pool whose unmapping a test can observe, because it releases the lock of the pool's session.
struct watched_pool {
  storage::pool_memory memory = make_small_pool();

  std::unique_ptr<own_pool> attach() const {
    auto attached = storage::pool_memory::attach(memory.name(), memory.owner());
    EXPECT_TRUE(attached && attached->lock_session(0));
    return std::make_unique<own_pool>(std::move(*attached));
  }
  bool has_ended() const { return memory.session_is_dead(0); }
};

TEST(pool_unmapper, ends_a_pool_on_its_own_thread_when_the_last_user_has_gone) {
  watched_pool pool;
  auto unmapper = std::make_shared<pool_unmapper>();
  auto first = pool_unmapper::share(pool.attach(), unmapper);
  auto second = first;
  first.reset();
  second.reset();
  EXPECT_FALSE(pool.has_ended());
  unmapper->stop();
  std::thread([&] { unmapper->run(); }).join();
  EXPECT_TRUE(pool.has_ended());
}

TEST(pool_unmapper, what_comes_while_it_runs_ends_without_its_stop) {
  watched_pool pool;
  auto unmapper = std::make_shared<pool_unmapper>();
  std::thread thread([&] { unmapper->run(); });
  pool_unmapper::share(pool.attach(), unmapper).reset();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!pool.has_ended() && std::chrono::steady_clock::now() < end)
    std::this_thread::yield();
  EXPECT_TRUE(pool.has_ended());
  unmapper->stop();
  thread.join();
}

TEST(pool_unmapper, what_comes_after_its_end_ends_at_once) {
  watched_pool pool;
  auto unmapper = std::make_shared<pool_unmapper>();
  auto late = pool_unmapper::share(pool.attach(), unmapper);
  unmapper->stop();
  unmapper->run();
  late.reset();
  EXPECT_TRUE(pool.has_ended());
}

} // namespace
} // namespace peercache::client
