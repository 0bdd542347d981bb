// Tests of how much the disk tier evicts, over each of the stores. The room of evicted pages is not
// free at once, because files are removed some at a time and an index has to commit. Time is
// simulated, and the directory answers at once.

#include "storage/disk/bucket/bucket_format.hpp"
#include "storage/disk/disk_tier.hpp"
#include "tests/storage/disk/store_harness.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace peercache::storage::tier_eviction_test {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t page_bytes = 4 * disk_block_bytes;
constexpr std::uint64_t size_bytes = 64u << 20;
/// Bytes that may be evicted beyond what is necessary, because a bucket is evicted as a whole.
constexpr std::uint64_t slack_bytes = size_bytes / 8;

class tier_eviction : public disk_stores {
protected:
  tier_eviction() {
    io.set_delay(disk_operation::write, 1ms, 1ms);
    io.set_delay(disk_operation::sync, 2ms, 2ms);
    disk_tier_options options;
    options.size_bytes = size_bytes;
    tier.emplace(GetParam().make(io, small_store(size_bytes)), options);
    EXPECT_TRUE(tier->recover({}, [](const disk_page&) {}));
    fill(page, memory.get());
  }
  ~tier_eviction() override {
    disk_tier_events events;
    tier->close(10s, events);
  }

  /// Writes a page. All pages have the same bytes, since nobody reads them.
  void write() {
    (void)tier->write({.key = key_of(next),
                       .gen = generation_of(page),
                       .checksum = checksum_of(page),
                       .memory = memory.get(),
                       .length_bytes = page_bytes,
                       .tag = next},
                      now);
    ++next;
  }

  void turn() {
    io.advance(1ms);
    now += 1ms;
    std::array<disk_completion, 64> done;
    const auto count = io.reap(done);
    tier->on_completions(io, {done.data(), count});
    disk_tier_events events;
    tier->poll(now, 1000, events);
    for (const auto& eviction : events.gone)
      if (eviction.ticket != 0)
        tier->acknowledge(eviction.ticket);
  }

  void settle() {
    for (int i = 0; i < 5000; ++i)
      turn();
  }

  std::uint64_t used() const { return tier->stats().store.used_bytes; }

  memory_disk_io io;
  std::optional<disk_tier> tier;
  disk_clock::time_point now{1h};
  std::uint32_t next = 1;
  const test_page page{.number = 0, .length_bytes = page_bytes};
  disk_blocks memory = make_blocks(page_bytes);
};

INSTANTIATE_TEST_SUITE_P(kinds, tier_eviction, testing::ValuesIn(all_store_kinds()), name_of);

TEST_P(tier_eviction, room_that_is_asked_for_costs_no_more_pages_than_it_takes) {
  while (used() < size_bytes / 5 * 4) {
    write();
    turn();
  }
  settle();
  const auto free_bytes = size_bytes / 5 * 2;
  tier->make_room(free_bytes);
  settle();
  EXPECT_LE(used(), size_bytes - free_bytes);
  EXPECT_GE(used() + slack_bytes, size_bytes - free_bytes) << "more went than had to";
  EXPECT_EQ(tier->stats().store.leaving_bytes, 0u) << "all that went is free";
}

TEST_P(tier_eviction, files_that_cannot_be_removed_cost_no_more_pages) {
  while (used() < size_bytes / 5 * 4) {
    write();
    turn();
  }
  settle();
  io.fail_share(disk_operation::metadata, 1, EROFS);
  const auto keep_bytes = size_bytes / 5 * 3;
  tier->make_room(size_bytes - keep_bytes);
  settle();
  EXPECT_GT(tier->stats().evicted, 0u);
  EXPECT_GE(tier->stats().store.pages * (page_bytes + disk_block_bytes) + slack_bytes, keep_bytes)
      << "more went than had to";
  // The store `offset` removes no files, so failing removals cannot occupy its room.
  if (std::string_view(GetParam().name) != "offset") {
    EXPECT_GE(used(), size_bytes / 5 * 4 - slack_bytes) << "what is there takes room";
  }
  io.fail_share(disk_operation::metadata, 0, 0);
  // A new bucket makes the bucket store try again to remove files that it could not remove.
  for (int i = 0; i < 2; ++i) {
    write();
    settle();
  }
  EXPECT_LE(used(), keep_bytes + slack_bytes) << "they go when they can";
  EXPECT_EQ(tier->stats().store.leaving_bytes, 0u);
}

TEST_P(tier_eviction, a_tier_that_is_written_to_stays_near_its_watermarks) {
  const auto low = static_cast<std::uint64_t>(disk_tier_options{}.low_watermark * size_bytes);
  while (tier->stats().evicted == 0) {
    write();
    turn();
  }
  auto least = used();
  for (int i = 0; i < 10'000; ++i) {
    if (i % 2 == 0)
      write();
    turn();
    least = std::min(least, used());
  }
  EXPECT_GE(least + slack_bytes, low);
  EXPECT_LE(used(), size_bytes);
}

TEST_P(tier_eviction, what_goes_by_itself_is_not_made_up_for_by_pages_that_come_later) {
  constexpr std::uint32_t pages = 100;
  const auto write_all = [&] {
    for (std::uint32_t i = 0; i < pages; ++i) {
      write();
      turn();
    }
    settle();
  };
  write_all();
  tier->make_room(size_bytes);
  for (std::uint32_t number = 1; number <= pages; ++number)
    tier->erase(key_of(number));
  settle();
  write_all();
  EXPECT_EQ(tier->stats().store.pages, pages);
}

} // namespace
} // namespace peercache::storage::tier_eviction_test
