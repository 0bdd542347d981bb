#include "storage/disk/bucket/bucket_files.hpp"
#include "storage/disk/bucket/bucket_writer.hpp"
#include "tests/storage/disk/store_harness.hpp"

#include <gtest/gtest.h>

#include <cerrno>

namespace peercache::storage {
namespace {

using namespace std::chrono_literals;

constexpr store_kind bucket_kind{"bucket", make_bucket_store};

void step_often(store_harness& there) {
  for (int i = 0; i < 10; ++i)
    there.step();
}

void write_pages(store_harness& there, std::uint32_t from, std::uint32_t to,
                 std::uint32_t length_bytes = disk_block_bytes) {
  for (auto i = from; i < to; ++i)
    there.write({.number = i, .length_bytes = length_bytes});
  there.settle();
}

TEST(bucket_store, seals_by_keys_by_size_and_by_age_and_keeps_no_room_that_it_does_not_use) {
  memory_disk_io io;
  store_harness there(bucket_kind, io, small_store());
  ASSERT_TRUE(there.recover());
  write_pages(there, 0, 20); // 20 pages fill a bucket by its number of keys.
  write_pages(there, 20, 21);
  step_often(there);
  EXPECT_EQ(there.store().stats().files, 2u);
  const auto sealed = (20 + 1) * disk_block_bytes + footer_bytes(20);
  EXPECT_EQ(io.contents(bucket_path(1)).size(), sealed);
  // These pages have more bytes than the second bucket has left.
  write_pages(there, 100, 106, 50'000);
  step_often(there);
  EXPECT_EQ(there.store().stats().files, 3u);
  EXPECT_GE(io.contents(bucket_path(3)).size(), 200'000u);
  there.pass(9s);
  step_often(there);
  EXPECT_GE(io.contents(bucket_path(3)).size(), 200'000u);
  there.pass(2s);
  step_often(there);
  std::uint64_t bytes = 0;
  for (const auto& file : io.files())
    bytes += io.contents(file).size();
  EXPECT_EQ(there.store().stats().used_bytes, bytes);
  EXPECT_EQ(there.store().next_due(), disk_clock::time_point::max());
}

TEST(bucket_store, a_start_reads_the_footers_only) {
  memory_disk_io io;
  {
    store_harness there(bucket_kind, io, small_store());
    ASSERT_TRUE(there.recover());
    write_pages(there, 0, 100);
    there.close();
  }
  // Damages every page and every header before a page. A start that reads footers must not notice,
  // because it does not read these blocks.
  for (const auto& file : io.files())
    for (std::uint64_t at = 0; at < 21 * disk_block_bytes; at += disk_block_bytes)
      io.flip_bit(file, at, 1);
  store_harness again(bucket_kind, io, small_store());
  const auto report = again.recover();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->pages, 100u);
  EXPECT_EQ(report->files, 5u);
  EXPECT_EQ(again.read_and_settle(7), disk_status::corrupt);
  again.close();
  store_harness verified(bucket_kind, io, small_store());
  const auto second = verified.recover({.verify = true});
  ASSERT_TRUE(second);
  EXPECT_EQ(second->pages, 0u);
  EXPECT_EQ(second->corrupt, 100u);
}

TEST(bucket_store, a_damaged_footer_costs_a_walk_and_is_written_anew) {
  memory_disk_io io;
  store_harness there(bucket_kind, io, small_store());
  ASSERT_TRUE(there.recover());
  write_pages(there, 0, 20);
  there.close();
  const auto bytes = io.contents(bucket_path(1)).size();
  io.flip_bit(bucket_path(1), bytes - 3, 1);
  for (int start = 0; start < 2; ++start) {
    store_harness again(bucket_kind, io, small_store());
    again.know(there.tried());
    const auto report = again.recover();
    ASSERT_TRUE(report);
    EXPECT_EQ(report->pages, 20u);
    // The damaged footer counts as one torn record at the first start, which writes a new footer.
    EXPECT_EQ(report->torn, start == 0 ? 1u : 0u);
    EXPECT_EQ(again.read_and_settle(3), disk_status::ok);
    EXPECT_EQ(io.contents(bucket_path(1)).size(), bytes);
  }
}

TEST(bucket_store, evicts_the_bucket_that_was_not_read_for_the_longest_time_if_so_told) {
  for (const bool lru : {false, true}) {
    memory_disk_io io;
    auto options = small_store();
    options.lru = lru;
    store_harness there(bucket_kind, io, options);
    ASSERT_TRUE(there.recover());
    for (std::uint32_t i = 0; i < 80; i += 20)
      write_pages(there, i, i + 20);
    write_pages(there, 80, 81);
    step_often(there);
    ASSERT_EQ(there.read_and_settle(5), disk_status::ok);  // Page 5 is in the first bucket.
    ASSERT_EQ(there.read_and_settle(45), disk_status::ok); // Page 45 is in the third bucket.
    const auto eviction = there.store().begin_eviction(1);
    ASSERT_EQ(eviction.pages.size(), 20u);
    const std::uint32_t first = lru ? 20 : 0;
    for (std::uint32_t i = first; i < first + 20; ++i)
      EXPECT_EQ(there.store().find(key_of(i)), nullptr) << i;
    there.store().finish_eviction(eviction.ticket);
  }
}

TEST(bucket_store, a_bucket_whose_pages_are_all_gone_is_deleted) {
  memory_disk_io io;
  store_harness there(bucket_kind, io, small_store());
  ASSERT_TRUE(there.recover());
  write_pages(there, 0, 41);
  step_often(there);
  ASSERT_EQ(there.store().stats().files, 3u);
  for (std::uint32_t i = 0; i < 10; ++i)
    there.store().erase(key_of(i));
  ASSERT_EQ(there.store().stats().files, 3u);
  for (std::uint32_t i = 10; i < 20; ++i)
    there.write({.number = i, .version = 1});
  there.settle();
  EXPECT_EQ(there.store().stats().files, 2u);
  EXPECT_EQ(io.files().size(), 2u);
}

TEST(bucket_store, a_file_that_cannot_be_removed_still_counts_until_it_can) {
  memory_disk_io io;
  store_harness there(bucket_kind, io, small_store());
  ASSERT_TRUE(there.recover());
  write_pages(there, 0, 20);
  there.pass(11s);
  step_often(there);
  const auto used = there.store().stats().used_bytes;
  const auto eviction = there.store().begin_eviction(1);
  io.fail_once(disk_operation::metadata, 0, EIO);
  there.store().finish_eviction(eviction.ticket);
  EXPECT_EQ(there.store().stats().used_bytes, used);
  EXPECT_EQ(io.files().size(), 1u);
  // A new bucket makes the store try again to remove the evicted bucket's file.
  write_pages(there, 20, 21);
  EXPECT_EQ(io.files().size(), 1u);
  EXPECT_EQ(there.store().stats().used_bytes, io.contents(io.files()[0]).size());
}

TEST(bucket_store, groups_are_written_while_others_are_made_durable) {
  memory_disk_io io;
  io.set_delay(disk_operation::sync, 100ms);
  io.set_delay(disk_operation::write, 1ms);
  auto options = small_store();
  options.bucket_bytes = 4u << 20;
  options.bucket_keys = 500;
  store_harness there(bucket_kind, io, options);
  ASSERT_TRUE(there.recover());
  const auto syncs = there.store().stats().syncs;
  write_pages(there, 0, 1);
  const auto one = io.now();
  // Writes each page once the previous page's transfer is done. If a page also waited for the
  // previous page's sync, 50 pages would take 5 s.
  for (std::uint32_t i = 1; i <= 50; ++i) {
    there.write({.number = i});
    there.step();
    there.pass(2ms);
    there.step();
  }
  there.settle();
  EXPECT_LT(io.now() - one, 500ms);
  EXPECT_LE(there.store().stats().syncs - syncs, 5u);
}

TEST(bucket_store, pages_behind_a_failed_group_are_written_elsewhere_and_only_it_fails) {
  memory_disk_io io({.reorder = false});
  store_harness there(bucket_kind, io, small_store());
  ASSERT_TRUE(there.recover());
  // The write that fails is that of the first page in the first group.
  io.fail_once(disk_operation::write, 1, EIO);
  for (std::uint32_t i = 0; i < 15; ++i) {
    there.write({.number = i});
    there.step();
  }
  there.settle();
  EXPECT_EQ(there.written(0), disk_status::io_failed);
  for (std::uint32_t i = 1; i < 15; ++i) {
    EXPECT_EQ(there.written(i), disk_status::ok) << i;
  }
}

TEST(bucket_store, after_a_failed_sync_nothing_that_it_covered_is_called_durable) {
  memory_disk_io io({.reorder = false});
  store_harness there(bucket_kind, io, small_store());
  ASSERT_TRUE(there.recover());
  write_pages(there, 0, 5);
  io.fail_once(disk_operation::sync, 0, EIO);
  write_pages(there, 5, 10);
  for (std::uint32_t i = 5; i < 10; ++i) {
    EXPECT_EQ(there.written(i), disk_status::io_failed);
    EXPECT_EQ(there.store().find(key_of(i)), nullptr);
  }
  // Page 3 was durable before the sync failed.
  EXPECT_EQ(there.read_and_settle(3), disk_status::ok);
  write_pages(there, 10, 15);
  EXPECT_EQ(there.written(12), disk_status::ok);
  // The pages are in two files, because the store writes no more to the bucket whose sync failed.
  EXPECT_GE(there.store().stats().files, 2u);
}

/// Makes a sync fail that covers page 1, after page 2 of the same bucket was written and while
/// page 3 of the bucket is still on the device. Page 0 is durable in the bucket before.
void fail_a_sync_between_writes(store_harness& there, memory_disk_io& io) {
  const auto step_after = [&](std::chrono::nanoseconds time) {
    there.pass(time);
    there.step();
  };
  ASSERT_EQ(there.write_and_settle({.number = 0}), disk_status::ok);
  const auto syncs = there.store().stats().syncs;
  io.set_delay(disk_operation::write, 1ms);
  io.set_delay(disk_operation::sync, 20ms);
  io.fail_once(disk_operation::sync, 0, EIO);
  there.write({.number = 1});
  there.step();
  step_after(1ms); // The sync of page 1 begins.
  there.write({.number = 2});
  there.step();
  step_after(1ms);
  io.set_delay(disk_operation::write, 200ms);
  there.write({.number = 3});
  there.step();
  step_after(20ms);
  ASSERT_EQ(there.written(1), disk_status::io_failed);
  ASSERT_EQ(there.store().stats().syncs, syncs + 1);
  ASSERT_EQ(there.on_way(), 2u);
  io.set_delay(disk_operation::write, 1ms);
}

TEST(bucket_store, no_page_behind_a_failed_sync_is_called_durable_by_a_later_sync) {
  memory_disk_io io({.reorder = false});
  store_harness there(bucket_kind, io, small_store());
  ASSERT_TRUE(there.recover());
  ASSERT_NO_FATAL_FAILURE(fail_a_sync_between_writes(there, io));
  // A second sync of the bucket would begin and end while page 3 is on the device.
  for (int i = 0; i < 12; ++i) {
    there.pass(10ms);
    there.step();
  }
  EXPECT_EQ(there.on_way(), 2u);
  there.settle();
  for (const std::uint32_t number : {0, 2, 3}) {
    EXPECT_EQ(there.written(number), disk_status::ok) << number;
    EXPECT_EQ(there.read_and_settle(number), disk_status::ok) << number;
  }
}

TEST(bucket_store, pages_behind_a_failed_sync_are_written_elsewhere_once) {
  memory_disk_io io({.reorder = false});
  store_harness there(bucket_kind, io, small_store());
  ASSERT_TRUE(there.recover());
  ASSERT_NO_FATAL_FAILURE(fail_a_sync_between_writes(there, io));
  // A second sync of the bucket would still run when the write of page 3 completes.
  io.set_delay(disk_operation::sync, 1s);
  there.settle();
  for (const std::uint32_t number : {0, 2, 3}) {
    EXPECT_EQ(there.written(number), disk_status::ok) << number;
    EXPECT_EQ(there.read_and_settle(number), disk_status::ok) << number;
  }
  EXPECT_EQ(there.events(disk_event::kind::written, disk_status::ok), 3u);
}

TEST(bucket_store, nothing_is_due_while_a_failed_group_waits_for_a_later_group) {
  memory_disk_io io;
  store_harness there(bucket_kind, io, small_store());
  ASSERT_TRUE(there.recover());
  io.fail_once(disk_operation::write, 0, EIO);
  io.set_delay(disk_operation::write, 1ms);
  there.write({.number = 0});
  there.step();
  io.set_delay(disk_operation::write, 1h);
  there.write({.number = 1});
  there.step();
  there.write({.number = 2}); // Joins a third group of the bucket, which never starts there.
  there.pass(1ms);
  there.step();
  ASSERT_EQ(there.on_way(), 3u);
  EXPECT_EQ(there.store().next_due(), disk_clock::time_point::max());
  io.set_delay(disk_operation::write, 0ms);
  there.settle();
  EXPECT_EQ(there.written(0), disk_status::io_failed);
  EXPECT_EQ(there.written(1), disk_status::ok);
  EXPECT_EQ(there.written(2), disk_status::ok);
}

TEST(bucket_store, keeps_few_files_open_and_reads_from_all) {
  memory_disk_io io;
  auto options = small_store();
  options.bucket_keys = 1;
  store_harness there(bucket_kind, io, options);
  ASSERT_TRUE(there.recover());
  const std::uint32_t files = 3 * bucket_files::open_max;
  write_pages(there, 0, files);
  step_often(there);
  EXPECT_GE(there.store().stats().files, files - 1);
  for (std::uint32_t i = 0; i < files; ++i)
    there.read(i);
  there.settle();
  EXPECT_EQ(there.events(disk_event::kind::read, disk_status::ok), files);
  EXPECT_EQ(there.wrong_pages(), 0u);
}

TEST(bucket_store, files_that_are_not_buckets_stay_and_empty_ones_go) {
  memory_disk_io io;
  ASSERT_TRUE(io.make_folder(std::string(bucket_folder)));
  for (const auto* name : {"buckets/notes.txt", "buckets/0000000000000005.bucket"}) {
    auto file = io.create(name, 8192);
    ASSERT_TRUE(file);
    io.close(*file);
  }
  store_harness there(bucket_kind, io, small_store());
  ASSERT_TRUE(there.recover());
  EXPECT_EQ(io.files(), std::vector<std::string>{"buckets/notes.txt"});
  write_pages(there, 0, 1);
  // A bucket's id is never used again: the file 5 was removed, and the next one is 6.
  EXPECT_EQ(io.files().front(), bucket_path(6));
}

} // namespace
} // namespace peercache::storage
