#include "common/limits.hpp"
#include "tests/storage/disk/store_harness.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

namespace peercache::storage {
namespace {

using namespace std::chrono_literals;
using event_kind = disk_event::kind;

class disk_store_conformance : public disk_stores {
public:
  store_harness open(memory_disk_io& io, const disk_store_options& options = small_store()) {
    return {GetParam(), io, options};
  }
};

INSTANTIATE_TEST_SUITE_P(kinds, disk_store_conformance, testing::ValuesIn(all_store_kinds()),
                         name_of);

TEST_P(disk_store_conformance, pages_of_all_sizes_come_back_as_they_were) {
  memory_disk_io io;
  auto there = open(io, small_store(512u << 20));
  ASSERT_TRUE(there.recover());
  const std::vector<std::uint32_t> lengths = {
      1, 2, 4095, 4096, 4097, 65'536, 100'000, 1 << 20, 5 << 20, limits::page_bytes_max};
  for (std::uint32_t i = 0; i < lengths.size(); ++i)
    there.write({.number = i, .length_bytes = lengths[i]});
  there.settle();
  for (std::uint32_t i = 0; i < lengths.size(); ++i) {
    ASSERT_EQ(there.written(i), disk_status::ok) << lengths[i];
    const auto* found = there.store().find(key_of(i));
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->length_bytes, lengths[i]);
    EXPECT_EQ(found->gen, generation_of({.number = i}));
    EXPECT_EQ(found->checksum, checksum_of(test_page{.number = i, .length_bytes = lengths[i]}));
    ASSERT_EQ(there.read_and_settle(i), disk_status::ok) << lengths[i];
  }
  EXPECT_EQ(there.wrong_pages(), 0u);
  EXPECT_EQ(there.store().stats().pages, lengths.size());
  EXPECT_EQ(there.store().stats().page_bytes,
            std::accumulate(lengths.begin(), lengths.end(), std::uint64_t{0}));
  EXPECT_GE(there.store().stats().used_bytes, there.store().stats().page_bytes);
}

TEST_P(disk_store_conformance, a_page_that_is_not_there_is_not_found) {
  memory_disk_io io;
  auto there = open(io);
  ASSERT_TRUE(there.recover());
  EXPECT_EQ(there.read_and_settle(1), disk_status::not_found);
  EXPECT_EQ(there.store().find(key_of(1)), nullptr);
  EXPECT_FALSE(there.store().erase(key_of(1)));
}

TEST_P(disk_store_conformance, lengths_that_no_page_has_are_refused) {
  memory_disk_io io;
  auto there = open(io);
  ASSERT_TRUE(there.recover());
  EXPECT_EQ(there.write_and_settle({.number = 1, .length_bytes = 0}), disk_status::refused);
  EXPECT_EQ(there.write_and_settle({.number = 1, .length_bytes = 1}), disk_status::ok);
}

TEST_P(disk_store_conformance, a_key_written_again_is_replaced_also_after_a_restart) {
  memory_disk_io io;
  std::map<std::uint32_t, std::vector<test_page>> tried;
  {
    auto there = open(io);
    ASSERT_TRUE(there.recover());
    for (std::uint32_t version = 0; version < 5; ++version) {
      const test_page page{.number = 1, .version = version, .length_bytes = 1000 * (version + 1)};
      ASSERT_EQ(there.write_and_settle(page), disk_status::ok);
      ASSERT_EQ(there.store().find(key_of(1))->gen, generation_of(page));
      ASSERT_EQ(there.read_and_settle(1), disk_status::ok);
    }
    EXPECT_EQ(there.store().stats().pages, 1u);
    EXPECT_EQ(there.wrong_pages(), 0u);
    tried = there.tried();
  }
  auto again = open(io);
  again.know(tried);
  ASSERT_TRUE(again.recover());
  const auto* found = again.store().find(key_of(1));
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->gen, generation_of({.version = 4}));
  ASSERT_EQ(again.read_and_settle(1), disk_status::ok);
  const test_page newest{.number = 1, .version = 7};
  ASSERT_EQ(again.write_and_settle(newest), disk_status::ok);
  again.close();
  auto third = open(io);
  ASSERT_TRUE(third.recover());
  ASSERT_NE(third.store().find(key_of(1)), nullptr);
  EXPECT_EQ(third.store().find(key_of(1))->gen, generation_of(newest));
}

TEST_P(disk_store_conformance, an_erased_page_is_gone_at_once_and_its_room_when_all_are) {
  memory_disk_io io;
  auto there = open(io);
  ASSERT_TRUE(there.recover());
  for (std::uint32_t i = 0; i < 100; ++i)
    there.write({.number = i});
  there.settle();
  for (std::uint32_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(there.store().erase(key_of(i)));
    ASSERT_EQ(there.store().find(key_of(i)), nullptr);
    ASSERT_FALSE(there.store().erase(key_of(i)));
  }
  EXPECT_EQ(there.read_and_settle(5), disk_status::not_found);
  EXPECT_EQ(there.store().stats().pages, 0u);
  EXPECT_EQ(there.store().stats().page_bytes, 0u);
  there.close();
}

TEST_P(disk_store_conformance, many_more_pages_than_the_device_takes_at_a_time_all_get_through) {
  memory_disk_io io({.seed = 3, .queue_depth = 4});
  io.set_delay(disk_operation::write, 10us, 100us);
  io.set_delay(disk_operation::read, 10us, 100us);
  auto there = open(io);
  ASSERT_TRUE(there.recover());
  for (std::uint32_t i = 0; i < 1500; ++i)
    there.write({.number = i, .length_bytes = 1 + i * 7 % 9000});
  there.settle();
  for (std::uint32_t i = 0; i < 1500; ++i)
    there.read(i);
  there.settle();
  EXPECT_EQ(there.events(event_kind::written, disk_status::ok), 1500u);
  EXPECT_EQ(there.events(event_kind::read, disk_status::ok), 1500u);
  EXPECT_EQ(there.wrong_pages(), 0u);
}

TEST_P(disk_store_conformance, a_page_becomes_durable_while_more_reads_wait_than_the_device_takes) {
  memory_disk_io io({.queue_depth = 2});
  auto there = open(io);
  ASSERT_TRUE(there.recover());
  ASSERT_EQ(there.write_and_settle({.number = 0}), disk_status::ok);
  io.set_delay(disk_operation::read, 1ms);
  there.write({.number = 1});
  there.step(); // The page's transfers are on the device before the first read.
  for (int turns = 0; turns < 1000 && !there.written(1); ++turns) {
    while (there.on_way() < 9)
      there.read(0);
    there.step();
    there.pass(1ms);
  }
  EXPECT_EQ(there.written(1), disk_status::ok);
  there.settle();
}

TEST_P(disk_store_conformance, pages_are_written_while_more_reads_wait_than_the_device_takes) {
  memory_disk_io io({.queue_depth = 2});
  auto there = open(io);
  ASSERT_TRUE(there.recover());
  ASSERT_EQ(there.write_and_settle({.number = 0}), disk_status::ok);
  io.set_delay(disk_operation::read, 1ms);
  constexpr std::uint32_t pages = 20;
  const auto read_on = [&] {
    while (there.on_way() < 9 + pages)
      there.read(0);
    there.step();
    there.pass(1ms);
  };
  read_on(); // Reads wait before the first page is handed in.
  for (std::uint32_t i = 1; i <= pages; ++i)
    there.write({.number = i});
  const auto all = 1 + std::uint64_t{pages};
  for (int turns = 0; turns < 1000 && there.events(event_kind::written, disk_status::ok) < all;
       ++turns)
    read_on();
  EXPECT_EQ(there.events(event_kind::written, disk_status::ok), all);
  EXPECT_GT(there.events(event_kind::read, disk_status::ok), 6 * pages)
      << "reads keep most of the device";
  there.settle();
}

TEST_P(disk_store_conformance, a_page_is_known_only_when_it_would_survive_a_loss_of_power) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    memory_disk_io io({.seed = seed});
    io.set_delay(disk_operation::write, 10us, 500us);
    io.set_delay(disk_operation::sync, 10us, 2ms);
    auto there = open(io);
    ASSERT_TRUE(there.recover());
    for (std::uint32_t i = 0; i < 60; ++i) {
      there.write({.number = i, .length_bytes = 1 + i * 997 % 20'000});
      there.step();
      there.pass(50us);
      ASSERT_EQ(there.store().stats().pages, there.durable().size());
      if (i % 10 != 9)
        continue;
      auto left = io.after_power_cut(seed, survivors::none);
      auto again = open(*left);
      again.know(there.tried());
      ASSERT_TRUE(again.recover());
      for (const auto& [number, page] : there.durable()) {
        ASSERT_EQ(again.read_and_settle(number), disk_status::ok) << "page " << number;
      }
      ASSERT_EQ(again.wrong_pages(), 0u);
    }
  }
}

TEST_P(disk_store_conformance, a_restart_finds_exactly_what_was_durable) {
  memory_disk_io io;
  std::map<std::uint32_t, test_page> durable;
  std::map<std::uint32_t, std::vector<test_page>> tried;
  std::uint64_t used = 0;
  {
    auto there = open(io);
    ASSERT_TRUE(there.recover());
    for (std::uint32_t i = 0; i < 300; ++i)
      there.write({.number = i % 200, .version = i / 200, .length_bytes = 1 + i * 331 % 30'000});
    there.settle();
    there.close();
    durable = there.durable();
    tried = there.tried();
    used = there.store().stats().used_bytes;
    EXPECT_EQ(durable.size(), 200u);
  }
  for (const std::uint32_t threads : {1u, 4u}) {
    for (const bool verify : {false, true}) {
      auto again = open(io);
      again.know(tried);
      double share = 0;
      const auto report = again.recover(
          {.threads = threads, .verify = verify, .progress = [&](std::uint64_t, double now) {
             EXPECT_GE(now, share);
             share = now;
           }});
      ASSERT_TRUE(report) << report.error().message;
      EXPECT_EQ(report->pages, durable.size());
      EXPECT_EQ(report->torn + report->foreign + report->corrupt, 0u);
      EXPECT_DOUBLE_EQ(share, 1.0);
      for (const auto& [number, page] : durable) {
        const auto* found = again.store().find(key_of(number));
        ASSERT_NE(found, nullptr);
        ASSERT_EQ(found->gen, generation_of(page));
        ASSERT_GT(found->written_s, 0u);
        ASSERT_EQ(again.read_and_settle(number), disk_status::ok);
      }
      EXPECT_EQ(again.wrong_pages(), 0u);
      EXPECT_EQ(again.store().stats().used_bytes, used);
    }
  }
}

TEST_P(disk_store_conformance, a_walk_sees_every_page_once) {
  memory_disk_io io;
  auto there = open(io);
  ASSERT_TRUE(there.recover());
  for (std::uint32_t i = 0; i < 100; ++i)
    there.write({.number = i});
  there.settle();
  std::multiset<page_key> seen;
  std::uint64_t last = 0;
  do {
    last = there.store().walk(last, 7, [&](const disk_page& page) { seen.insert(page.key); });
  } while (last != 0);
  EXPECT_EQ(seen.size(), 100u);
  for (std::uint32_t i = 0; i < 100; ++i)
    EXPECT_EQ(seen.count(key_of(i)), 1u);
}

TEST_P(disk_store_conformance, an_eviction_takes_pages_first_and_their_room_when_it_is_finished) {
  memory_disk_io io;
  auto there = open(io);
  ASSERT_TRUE(there.recover());
  for (std::uint32_t i = 0; i < 200; ++i)
    there.write({.number = i, .length_bytes = 8192});
  there.settle();
  // After eleven seconds open buckets are old enough to be sealed, and so can be evicted.
  there.pass(11s);
  for (int i = 0; i < 20; ++i)
    there.step();
  const auto before = there.store().stats();
  const auto eviction = there.store().begin_eviction(500'000);
  ASSERT_NE(eviction.ticket, 0u);
  ASSERT_GE(eviction.pages.size(), 500'000u / 16'384);
  ASSERT_LT(eviction.pages.size(), 200u);
  for (const auto& page : eviction.pages)
    EXPECT_EQ(there.store().find(page.key), nullptr);
  EXPECT_EQ(there.store().stats().pages, before.pages - eviction.pages.size());
  EXPECT_EQ(there.store().stats().used_bytes, before.used_bytes);
  there.store().finish_eviction(eviction.ticket);
  for (int i = 0; i < 20; ++i)
    there.step();
  EXPECT_LE(there.store().stats().used_bytes, before.used_bytes - 500'000);
  // Expects that the store has evicted the pages that were written first.
  std::set<page_key> gone;
  for (const auto& page : eviction.pages)
    gone.insert(page.key);
  for (std::uint32_t i = 0; i < eviction.pages.size(); ++i)
    EXPECT_TRUE(gone.contains(key_of(i))) << i;
  for (auto i = static_cast<std::uint32_t>(eviction.pages.size()); i < 200; ++i)
    ASSERT_EQ(there.read_and_settle(i), disk_status::ok);
  EXPECT_EQ(there.wrong_pages(), 0u);
  EXPECT_EQ(there.store().begin_eviction(0).ticket, 0u);
}

TEST_P(disk_store_conformance, a_reader_holds_what_is_evicted_or_erased_or_replaced) {
  memory_disk_io io;
  auto there = open(io);
  ASSERT_TRUE(there.recover());
  for (std::uint32_t i = 0; i < 40; ++i)
    there.write({.number = i, .length_bytes = 20'000});
  there.settle();
  there.pass(11s);
  for (int i = 0; i < 20; ++i)
    there.step();
  io.set_delay(disk_operation::read, 1s);
  for (std::uint32_t i = 0; i < 40; ++i)
    there.read(i);
  there.step();
  for (std::uint32_t i = 0; i < 10; ++i)
    ASSERT_TRUE(there.store().erase(key_of(i)));
  const auto eviction = there.store().begin_eviction(UINT64_MAX);
  ASSERT_EQ(eviction.pages.size(), 30u);
  there.store().finish_eviction(eviction.ticket);
  // New pages must not take the room of pages that are still being read.
  for (std::uint32_t i = 100; i < 140; ++i)
    there.write({.number = i, .length_bytes = 20'000});
  for (int i = 0; i < 50; ++i) {
    there.step();
    there.pass(1ms);
  }
  there.settle();
  EXPECT_EQ(there.events(event_kind::read, disk_status::ok), 40u);
  EXPECT_EQ(there.events(event_kind::written, disk_status::ok), 80u);
  EXPECT_EQ(there.wrong_pages(), 0u);
  EXPECT_EQ(there.store().stats().pages, 40u);
}

TEST_P(disk_store_conformance, close_gives_every_page_back_and_keeps_what_it_can) {
  memory_disk_io io;
  auto there = open(io);
  ASSERT_TRUE(there.recover());
  for (std::uint32_t i = 0; i < 100; ++i)
    there.write({.number = i});
  there.close();
  EXPECT_EQ(there.events(event_kind::written, disk_status::ok), 100u);
  there.write({.number = 200});
  there.read(1);
  there.settle();
  EXPECT_EQ(there.written(200), disk_status::refused);
  EXPECT_EQ(there.was_read(1), disk_status::refused);
}

TEST_P(disk_store_conformance, close_without_time_refuses_what_is_not_durable) {
  memory_disk_io io({.queue_depth = 8});
  auto there = open(io);
  ASSERT_TRUE(there.recover());
  ASSERT_EQ(there.write_and_settle({.number = 1000}), disk_status::ok);
  io.set_delay(disk_operation::write, 1h);
  for (std::uint32_t i = 0; i < 100; ++i) {
    there.write({.number = i});
    there.step();
  }
  there.read(1000);
  there.close(0ns);
  EXPECT_EQ(there.events(event_kind::written, disk_status::refused) +
                there.events(event_kind::written, disk_status::ok),
            101u);
  EXPECT_GT(there.events(event_kind::written, disk_status::refused), 50u);
}

} // namespace
} // namespace peercache::storage
