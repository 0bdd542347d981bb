#include "tests/storage/disk/tier_rig.hpp"

#include "tests/fakes/memory_disk_io.hpp"

namespace peercache::storage::tier_test {
namespace {

TEST_F(disk_tier_test, the_device_gets_new_work_before_what_it_did_is_looked_at) {
  make();
  memory_disk_io io;
  const std::array<disk_completion, 3> done{};
  tier->on_completions(io, done);
  EXPECT_EQ(store->refills_at_completion, (std::vector<int>{1, 1, 1}));
  tier->on_completions(io, {});
  EXPECT_EQ(store->refills, 1);
}

TEST_F(disk_tier_test, a_written_page_has_one_event_and_can_be_read) {
  make();
  EXPECT_EQ(write(1), write_skip::none);
  ASSERT_EQ(poll().done.size(), 1u);
  EXPECT_EQ(events.done[0].tag, 1u);
  EXPECT_EQ(events.done[0].status, disk_status::ok);
  read(1);
  ASSERT_EQ(poll().done.size(), 1u);
  EXPECT_EQ(events.done[0].status, disk_status::ok);
  EXPECT_EQ(tier->stats().read_bytes, page_bytes);
  EXPECT_TRUE(poll().empty());
}

TEST_F(disk_tier_test, what_does_not_fit_the_queue_is_skipped_and_counted) {
  make();
  store->stalled = true;
  for (std::uint32_t i = 0; i < 20; ++i)
    EXPECT_EQ(write(i), write_skip::none);
  EXPECT_EQ(write(20), write_skip::queue_full);
  poll();
  EXPECT_EQ(write(20), write_skip::queue_full) << "on the device is not done yet";
  EXPECT_EQ(tier->stats().queue_bytes, 20u * page_bytes);
  store->stalled = false;
  EXPECT_EQ(poll().done.size(), 20u);
  EXPECT_EQ(write(20), write_skip::none);
  EXPECT_EQ(tier->stats().skipped[static_cast<std::size_t>(write_skip::queue_full)], 2u);
}

TEST_F(disk_tier_test, a_page_larger_than_the_queue_is_written_alone) {
  options.queue_bytes = page_bytes - 1;
  make();
  store->stalled = true;
  EXPECT_EQ(write(1), write_skip::none);
  EXPECT_EQ(write(2), write_skip::queue_full);
  store->stalled = false;
  EXPECT_EQ(poll().done.size(), 1u);
  EXPECT_EQ(write(2), write_skip::none);
}

TEST_F(disk_tier_test, a_page_that_is_there_or_on_its_way_is_not_written_again) {
  make();
  EXPECT_EQ(write(1), write_skip::none);
  EXPECT_EQ(write(1), write_skip::on_disk);
  poll();
  EXPECT_EQ(write(1), write_skip::on_disk);
}

TEST_F(disk_tier_test,
       a_page_is_not_said_to_be_there_while_another_write_of_its_key_is_on_its_way) {
  make();
  store_pages(1, 1);
  store->stalled = true;
  ASSERT_EQ(write(1, 100), write_skip::none);
  EXPECT_EQ(write(1, 100), write_skip::on_disk);
  EXPECT_EQ(write(1, 200), write_skip::other_on_way);
  EXPECT_EQ(write(1), write_skip::other_on_way) << "the page that is there is about to be replaced";
  EXPECT_EQ(tier->stats().skipped[static_cast<std::size_t>(write_skip::other_on_way)], 2u);
  poll();
  store->stalled = false;
  poll();
  EXPECT_EQ(write(1, 200), write_skip::none) << "when the other write has ended";
}

TEST_F(disk_tier_test, a_page_is_not_said_to_be_there_while_its_write_ends_without_it) {
  make();
  store->stalled = true;
  ASSERT_EQ(write(1), write_skip::none);
  poll();
  ASSERT_TRUE(tier->erase(key_of(1)));
  EXPECT_EQ(write(1), write_skip::other_on_way);
  store->stalled = false;
  EXPECT_EQ(poll().done[0].status, disk_status::refused);
  EXPECT_EQ(tier->find(key_of(1)), nullptr);
  EXPECT_EQ(write(1), write_skip::none);
}

TEST_F(disk_tier_test, no_more_is_on_the_device_than_allowed) {
  options.writing_bytes = 3 * page_bytes;
  make();
  store->stalled = true;
  for (std::uint32_t i = 0; i < 10; ++i)
    write(i);
  poll();
  EXPECT_EQ(store->written.size(), 3u);
}

TEST_F(disk_tier_test, ten_errors_in_a_row_open_the_breaker_and_a_probe_closes_it) {
  make();
  store->device = disk_status::io_failed;
  for (std::uint32_t i = 0; i < 10; ++i) {
    EXPECT_EQ(write(i), write_skip::none);
    poll();
  }
  EXPECT_EQ(write(11), write_skip::breaker_open);
  store->device = disk_status::ok;
  now += 2s;
  EXPECT_EQ(write(11), write_skip::none) << "the probe";
  EXPECT_EQ(write(12), write_skip::breaker_open);
  poll();
  EXPECT_EQ(write(12), write_skip::none);
  EXPECT_EQ(tier->stats().breaker_opened, 1u);
}

TEST_F(disk_tier_test, reads_that_succeed_say_nothing_of_writes) {
  make();
  store_pages(1, 1);
  for (std::uint32_t i = 0; i < 10; ++i) {
    store->device = disk_status::io_failed;
    write(10 + i);
    poll();
    store->device = disk_status::ok;
    read(1);
    EXPECT_EQ(poll().done[0].status, disk_status::ok);
  }
  EXPECT_EQ(write(30), write_skip::breaker_open);
  EXPECT_EQ(tier->stats().breaker, circuit_breaker::state::open);
  read(1);
  EXPECT_EQ(poll().done[0].status, disk_status::ok) << "it is still read";
}

TEST_F(disk_tier_test, after_ten_reads_that_failed_the_device_is_not_asked_until_the_scrubs_probe) {
  options.scrub_bytes_per_s = page_bytes;
  options.breaker.pause = 3s;
  make();
  store_pages(1, 1);
  store->device = disk_status::io_failed;
  for (int i = 0; i < 10; ++i) {
    read(1);
    poll();
  }
  EXPECT_EQ(tier->stats().breaker, circuit_breaker::state::open);
  store->device = disk_status::ok;
  read(1);
  EXPECT_EQ(poll().done[0].status, disk_status::io_failed) << "and the device is not asked";
  now += 2s;
  poll();
  EXPECT_GT(tier->next_due(), now) << "nobody turns in circles meanwhile";
  for (int i = 0; i < 30; ++i, now += 100ms)
    poll();
  EXPECT_EQ(tier->stats().breaker, circuit_breaker::state::closed);
}

TEST_F(disk_tier_test, a_full_device_is_not_written_to_until_it_has_room_again) {
  make();
  store_pages(1, 1);
  store->device = disk_status::no_space;
  write(2);
  EXPECT_EQ(poll().done[0].status, disk_status::no_space);
  EXPECT_EQ(write(3), write_skip::paused);
  EXPECT_TRUE(tier->stats().full);
  store->device = disk_status::ok;
  read(1);
  EXPECT_EQ(poll().done[0].status, disk_status::ok);
  EXPECT_EQ(write(3), write_skip::paused) << "a read makes no room";
  now += 1s;
  EXPECT_TRUE(tier->stats().full) << "until a write has found room";
  EXPECT_EQ(write(3), write_skip::none);
  poll();
  EXPECT_FALSE(tier->stats().full);
  EXPECT_EQ(tier->stats().breaker, circuit_breaker::state::closed);
}

/// The tier's own limit says nothing of the device: room comes with the next eviction.
TEST_F(disk_tier_test, a_page_that_the_tier_has_no_room_for_is_skipped_without_a_pause) {
  make();
  store->device = disk_status::no_room;
  write(1);
  EXPECT_EQ(poll().done[0].status, disk_status::no_room);
  EXPECT_FALSE(tier->stats().full);
  EXPECT_FALSE(tier->pauses());
  EXPECT_EQ(tier->stats().write_errors, 0u);
  EXPECT_EQ(tier->stats().skipped[static_cast<std::size_t>(write_skip::no_room)], 1u);
  store->device = disk_status::ok;
  EXPECT_EQ(write(2), write_skip::none);
  EXPECT_EQ(poll().done[0].status, disk_status::ok);
}

TEST_F(disk_tier_test, the_oldest_pages_go_from_the_high_watermark_to_the_low_one) {
  make();
  store_pages(0, 95);
  EXPECT_EQ(store->tickets, 0u);
  write(95);
  ASSERT_EQ(poll().gone.size(), 1u);
  ASSERT_EQ(events.gone[0].pages.size(), 6u);
  EXPECT_EQ(events.gone[0].pages[0].key, key_of(0));
  EXPECT_TRUE(store->finished.empty()) << "nobody has told the directory yet";
  tier->acknowledge(events.gone[0].ticket);
  EXPECT_EQ(store->finished.size(), 1u);
}

TEST_F(disk_tier_test, room_is_given_back_though_the_directory_never_answers) {
  make();
  store_pages(0, 96);
  now += 3s;
  poll();
  EXPECT_EQ(store->finished.size(), 1u);
  tier->acknowledge(1);
  EXPECT_EQ(store->finished.size(), 1u) << "it is given back once";
}

TEST_F(disk_tier_test, room_can_be_asked_for) {
  make();
  store_pages(0, 50);
  tier->make_room(70 * page_bytes);
  EXPECT_EQ(poll().gone[0].pages.size(), 20u);
}

TEST_F(disk_tier_test, room_that_cannot_be_had_costs_no_page_that_comes_later) {
  make();
  store->own_bytes = 5 * page_bytes;
  store_pages(0, 50);
  tier->make_room(options.size_bytes);
  ASSERT_EQ(poll().gone[0].pages.size(), 50u);
  tier->acknowledge(events.gone[0].ticket);
  store_pages(50, 10);
  poll();
  EXPECT_EQ(store->index.size(), 10u);
}

TEST_F(disk_tier_test, an_erased_page_is_not_written_or_forgotten_when_it_is) {
  options.writing_bytes = page_bytes;
  make();
  store->stalled = true;
  write(1);
  write(2);
  poll();
  EXPECT_TRUE(tier->erase(key_of(1)));
  EXPECT_TRUE(tier->erase(key_of(2)));
  EXPECT_FALSE(tier->erase(key_of(3)));
  store->stalled = false;
  std::size_t refused = 0;
  for (int i = 0; i < 3; ++i)
    for (const auto& event : poll().done)
      refused += event.status == disk_status::refused;
  EXPECT_EQ(refused, 2u);
  EXPECT_TRUE(store->index.empty());
  EXPECT_EQ(tier->stats().queue_bytes, 0u);
}

TEST_F(disk_tier_test, reads_that_the_store_has_no_room_for_wait) {
  make();
  store_pages(1, 1);
  store->busy = true;
  read(1);
  EXPECT_TRUE(poll().empty());
  store->busy = false;
  EXPECT_EQ(poll().done.size(), 1u);
}

TEST_F(disk_tier_test, a_read_that_waited_gets_the_page_that_it_has_room_for_or_none) {
  make();
  store_pages(1, 1);
  store->busy = true;
  tier->read({key_of(1), nullptr, 1, 1, page_bytes}, now);
  tier->read({key_of(1), nullptr, 2}, now);
  poll();
  store->index.insert({{key_of(1), {4}, 7, unix_s, 2 * page_bytes}, 0, 0});
  store->busy = false;
  ASSERT_EQ(poll().done.size(), 2u);
  for (const auto& event : events.done)
    EXPECT_EQ(event.status, event.tag == 1 ? disk_status::not_found : disk_status::ok);
}

TEST_F(disk_tier_test, a_corrupt_record_that_was_replaced_meanwhile_is_not_the_pages_end) {
  make();
  store_pages(1, 1);
  store->replaces_rotten = true;
  store->rotten[key_of(1)] = true;
  read(1);
  EXPECT_EQ(poll().done[0].status, disk_status::corrupt);
  EXPECT_TRUE(events.gone.empty());
}

TEST_F(disk_tier_test, a_corrupt_page_is_counted_and_gone) {
  make();
  store_pages(1, 1);
  store->rotten[key_of(1)] = true;
  read(1);
  EXPECT_EQ(poll().done[0].status, disk_status::corrupt);
  ASSERT_EQ(events.gone.size(), 1u);
  EXPECT_EQ(events.gone[0].pages[0].key, key_of(1));
  EXPECT_EQ(events.gone[0].ticket, 0u);
  EXPECT_EQ(tier->stats().checksum_failures, 1u);
  EXPECT_EQ(tier->stats().breaker, circuit_breaker::state::closed);
}

TEST_F(disk_tier_test, a_page_that_is_too_old_is_not_there_and_goes) {
  options.ttl = 60s;
  make();
  store_pages(1, 2);
  unix_s += 61;
  read(1);
  EXPECT_EQ(poll().done[0].status, disk_status::not_found);
  now += 2s;
  std::size_t gone = events.gone.empty() ? 0 : events.gone[0].pages.size();
  for (int i = 0; i < 3; ++i, now += 2s)
    for (const auto& each : poll().gone)
      gone += each.pages.size();
  EXPECT_EQ(gone, 2u);
  EXPECT_EQ(tier->stats().expired, 2u);
  EXPECT_TRUE(store->index.empty());
}

TEST_F(disk_tier_test, closing_ends_everything_with_an_event) {
  options.writing_bytes = page_bytes;
  make();
  store_pages(1, 1);
  store->stalled = true;
  write(2);
  write(3);
  poll();
  read(1);
  events = {};
  tier->close(1s, events);
  EXPECT_EQ(events.done.size(), 3u);
  EXPECT_EQ(write(4), write_skip::closed);
}

} // namespace
} // namespace peercache::storage::tier_test
