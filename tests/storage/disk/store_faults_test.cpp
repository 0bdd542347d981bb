#include "tests/storage/disk/store_harness.hpp"

#include <gtest/gtest.h>

#include <cerrno>

namespace peercache::storage {
namespace {

using namespace std::chrono_literals;
using event_kind = disk_event::kind;

class disk_store_faults : public disk_stores {
public:
  store_harness open(memory_disk_io& io, const disk_store_options& options = small_store()) {
    return {GetParam(), io, options};
  }
};

INSTANTIATE_TEST_SUITE_P(kinds, disk_store_faults, testing::ValuesIn(all_store_kinds()), name_of);

TEST_P(disk_store_faults, a_full_store_says_no_room_and_takes_pages_again_after_an_eviction) {
  memory_disk_io io;
  const std::uint64_t size = 2u << 20;
  auto there = open(io, small_store(size));
  ASSERT_TRUE(there.recover());
  std::uint32_t number = 0;
  for (int round = 0; round < 5; ++round) {
    while (there.write_and_settle({.number = number, .length_bytes = 30'000}) == disk_status::ok) {
      ++number;
      ASSERT_LE(there.store().stats().used_bytes, size);
      ASSERT_LT(number, 1000u);
    }
    ASSERT_EQ(there.written(number), disk_status::no_room);
    ASSERT_GE(there.store().stats().page_bytes, size / 2);
    for (int i = 0; i < 20; ++i)
      there.step();
    const auto eviction = there.store().begin_eviction(size / 4);
    ASSERT_NE(eviction.ticket, 0u);
    there.store().finish_eviction(eviction.ticket);
  }
  EXPECT_GT(number, 100u);
  EXPECT_EQ(there.wrong_pages(), 0u);
}

TEST_P(disk_store_faults, a_full_device_costs_writes_only) {
  memory_disk_io io({.capacity_bytes = 1u << 20});
  auto there = open(io);
  ASSERT_TRUE(there.recover());
  for (std::uint32_t i = 0; i < 100; ++i)
    there.write({.number = i, .length_bytes = 30'000});
  there.settle();
  const auto kept = there.durable().size();
  EXPECT_GT(kept, 0u);
  // A store `offset` has made its file as large as the device had room for.
  EXPECT_EQ(there.events(event_kind::written, disk_status::no_space) +
                there.events(event_kind::written, disk_status::no_room),
            100 - kept);
  for (const auto& [number, page] : there.durable())
    ASSERT_EQ(there.read_and_settle(number), disk_status::ok);
  EXPECT_EQ(there.wrong_pages(), 0u);
  io.set_capacity(1u << 30);
  EXPECT_EQ(there.write_and_settle({.number = 999}), disk_status::ok);
}

/// Lets the store write, read, replace, erase and evict pages.
void busy_life(store_harness& there) {
  for (std::uint32_t i = 0; i < 50; ++i) {
    there.write({.number = i % 35, .version = i / 35, .length_bytes = 1 + i * 1733 % 25'000});
    if (i % 3 == 0)
      there.read(i / 2);
    if (i % 4 == 0)
      there.step();
    if (i == 30)
      there.pass(60ms);
  }
  there.settle();
  there.store().erase(key_of(3));
  there.pass(11s);
  for (int i = 0; i < 10; ++i)
    there.step();
  const auto eviction = there.store().begin_eviction(100'000);
  if (eviction.ticket != 0)
    there.store().finish_eviction(eviction.ticket);
  for (std::uint32_t i = 0; i < 35; ++i)
    there.read(i);
  there.settle();
}

/// Expects that a store whose device works again serves pages, accepts new pages, and after a
/// restart finds all pages that it called durable.
void expect_healthy(const store_kind& kind, store_harness& there) {
  EXPECT_EQ(there.wrong_pages(), 0u);
  ASSERT_EQ(there.write_and_settle({.number = 500}), disk_status::ok);
  ASSERT_EQ(there.read_and_settle(500), disk_status::ok);
  std::map<std::uint32_t, test_page> served;
  for (const auto& [number, page] : there.durable())
    if (there.store().find(key_of(number)) != nullptr) {
      ASSERT_EQ(there.read_and_settle(number), disk_status::ok) << number;
      served[number] = page;
    }
  ASSERT_EQ(there.wrong_pages(), 0u);
  auto left = there.io().after_power_cut(1, survivors::none);
  store_harness again(kind, *left, small_store());
  again.know(there.tried());
  ASSERT_TRUE(again.recover());
  for (const auto& [number, page] : served)
    ASSERT_EQ(again.read_and_settle(number), disk_status::ok) << number << " after a restart";
  ASSERT_EQ(again.wrong_pages(), 0u);
}

TEST_P(disk_store_faults, any_operation_may_fail_once) {
  for (const auto what : {disk_operation::read, disk_operation::write, disk_operation::sync,
                          disk_operation::metadata})
    for (const int error : {EIO, ENOSPC}) {
      std::uint64_t nth = 0;
      // Ends when `busy_life` has no more than `nth` operations of this kind, so that none has
      // failed.
      for (bool has_failed = true; has_failed && nth < 90; ++nth) {
        SCOPED_TRACE("operation " + std::to_string(static_cast<int>(what)) + " number " +
                     std::to_string(nth) + " error " + std::to_string(error));
        memory_disk_io io({.seed = nth});
        auto there = open(io);
        ASSERT_TRUE(there.recover());
        io.fail_once(what, nth, error);
        busy_life(there);
        has_failed = io.heal();
        expect_healthy(GetParam(), there);
        if (HasFatalFailure())
          return;
      }
      EXPECT_GT(nth, 1u) << "no operation of the kind " << static_cast<int>(what) << " failed";
    }
}

TEST_P(disk_store_faults, a_share_of_all_operations_may_fail) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed)
    for (const double share : {0.01, 0.2, 1.0}) {
      SCOPED_TRACE("seed " + std::to_string(seed) + " share " + std::to_string(share));
      memory_disk_io io({.seed = seed});
      auto there = open(io);
      ASSERT_TRUE(there.recover());
      for (const auto what : {disk_operation::read, disk_operation::write, disk_operation::sync,
                              disk_operation::metadata})
        io.fail_share(what, share, EIO);
      busy_life(there);
      io.heal();
      expect_healthy(GetParam(), there);
      if (HasFatalFailure())
        return;
    }
}

} // namespace
} // namespace peercache::storage
