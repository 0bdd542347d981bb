#pragma once

// The tests of waits and wakes that every version of disk_io must pass.

#include "tests/storage/disk/io/disk_io_conformance_fixture.hpp"

#include <atomic>
#include <thread>

namespace peercache::storage {

TEST_P(disk_io_conformance, a_wait_ends_when_a_completion_is_there) {
  const auto file = created("a", block);
  const block_memory memory(block);
  ASSERT_TRUE(io->submit(disk_io_driver::request(kind::write, file, 0, memory.all(), 5)));
  io->wait(std::chrono::minutes(10));
  std::vector<disk_completion> done;
  driver->reap(done);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].tag, 5u);
}

TEST_P(disk_io_conformance, a_wait_ends_when_its_time_is_over) {
  for (const auto at_most : {std::chrono::nanoseconds(-5), std::chrono::nanoseconds(0),
                             std::chrono::nanoseconds(1), std::chrono::nanoseconds(2'000'000)})
    io->wait(at_most);
  std::vector<disk_completion> done;
  driver->reap(done);
  EXPECT_TRUE(done.empty());
}

TEST_P(disk_io_conformance, a_wake_ends_the_next_wait_even_when_it_came_before) {
  for (int i = 0; i < 100; ++i) {
    if (i % 3 == 0)
      io->wait(std::chrono::nanoseconds(0));
    io->wake();
    io->wake();
    std::vector<disk_completion> done;
    if (i % 2 == 0)
      driver->reap(done); // A reap must not use up the wake.
    io->wait(std::chrono::minutes(10));
    EXPECT_TRUE(done.empty());
  }
}

TEST_P(disk_io_conformance, a_wake_from_another_thread_ends_a_wait) {
  constexpr int rounds = 500;
  std::atomic<int> asked{0};
  std::thread other([&] {
    for (int i = 1; i <= rounds; ++i) {
      asked.store(i);
      io->wake();
      while (asked.load() != -i)
        std::this_thread::yield();
    }
  });
  for (int i = 1; i <= rounds; ++i) {
    while (asked.load() != i)
      io->wait(std::chrono::minutes(10));
    asked.store(-i);
  }
  other.join();
}

TEST_P(disk_io_conformance, wakes_from_other_threads_disturb_no_transfer) {
  const auto file = created("a", 64 * block);
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop.load())
      io->wake();
  });
  const block_memory written(64 * block);
  const block_memory read(64 * block);
  for (unsigned round = 0; round < 20; ++round) {
    written.fill(round);
    std::vector<disk_request> requests;
    for (std::uint32_t i = 0; i < 64; ++i)
      requests.push_back(
          disk_io_driver::request(kind::write, file, i * block, written.part(i * block, block), i));
    EXPECT_EQ(driver->all(requests).size(), 64u);
    EXPECT_EQ(driver->read(file, 0, read.all()), 0);
    EXPECT_TRUE(same(written.all(), read.all()));
  }
  stop.store(true);
  other.join();
}

} // namespace peercache::storage
