#include "cli/disk_status.hpp"

#include <gtest/gtest.h>

namespace peercache::cli::disk_status_test {

namespace {

link::disk_report healthy_tier() {
  link::disk_report disk;
  disk.on = true;
  disk.path = "/disk/node-1";
  disk.store = "bucket";
  disk.io = "io_uring";
  disk.breaker = "closed";
  disk.bytes_capacity = 1000;
  disk.bytes_used = 600;
  disk.page_bytes = 500;
  return disk;
}

bool says(const link::disk_report& disk, const std::string& part) {
  return to_text(disk, {}).find(part) != std::string::npos;
}

} // namespace

TEST(disk_status, a_tier_that_is_well_ends_with_0_and_anything_else_says_what_it_is) {
  auto disk = healthy_tier();
  EXPECT_EQ(exit_code_of(disk), exit_code::ok);
  disk.scanned = 0.25;
  EXPECT_EQ(exit_code_of(disk), exit_code::degraded);
  EXPECT_TRUE(says(disk, "being scanned, 25 % done")) << to_text(disk, {});
  disk = healthy_tier();
  disk.breaker = "half_open";
  EXPECT_EQ(exit_code_of(disk), exit_code::degraded);
  EXPECT_TRUE(says(disk, "breaker half_open")) << to_text(disk, {});
  disk = healthy_tier();
  disk.read_only = true;
  EXPECT_EQ(exit_code_of(disk), exit_code::degraded);
  EXPECT_TRUE(says(disk, "read-only: the device is full")) << to_text(disk, {});
}

TEST(disk_status, without_a_tier_it_fails_and_says_why_and_nothing_else) {
  link::disk_report disk;
  disk.why_off = "disk.path is empty";
  EXPECT_EQ(exit_code_of(disk), exit_code::failed);
  EXPECT_TRUE(says(disk, "off: disk.path is empty")) << to_text(disk, {});
  EXPECT_FALSE(says(disk, "folder"));
}

TEST(disk_status, only_reasons_that_happened_are_named_and_json_has_all) {
  auto disk = healthy_tier();
  EXPECT_TRUE(says(disk, "none")) << to_text(disk, {});
  disk.skipped = {{"queue_full", 12'345}, {"read_only", 0}};
  EXPECT_TRUE(says(disk, "12,345 queue_full")) << to_text(disk, {});
  EXPECT_FALSE(says(disk, "0 read_only")) << to_text(disk, {});
  const auto data = to_json(disk);
  EXPECT_EQ(data["skipped"]["queue_full"], 12'345);
  EXPECT_EQ(data["skipped"]["read_only"], 0);
  EXPECT_EQ(data["recovered"]["torn"], 0);
  EXPECT_EQ(data["write_latency"]["count"], 0);
}

TEST(disk_status, a_verify_is_done_when_two_reports_say_so) {
  auto disk = healthy_tier();
  disk.scrubbed_bytes = 10'000;
  disk.checksum_failures = 2;
  disk.read_errors = 5;
  verify_progress progress(disk);
  EXPECT_EQ(progress.total_bytes(), 500u);
  EXPECT_FALSE(progress.take(disk)) << "may be older than the beginning";
  disk.verifying = true;
  disk.scrubbed_bytes += 300;
  EXPECT_FALSE(progress.take(disk));
  EXPECT_EQ(progress.read_bytes(), 300u);
  disk.verifying = false;
  disk.scrubbed_bytes += 100;
  disk.checksum_failures += 1;
  disk.read_errors += 3;
  EXPECT_FALSE(progress.take(disk));
  EXPECT_TRUE(progress.take(disk));
  EXPECT_EQ(progress.unread(), 3u);
  EXPECT_EQ(progress.read_bytes(), 400u);
  EXPECT_EQ(progress.failures(), 1u) << "those from before are not its";
}

TEST(disk_status, an_eviction_is_done_when_so_many_bytes_are_free) {
  auto disk = healthy_tier();
  disk.evicted = 5;
  disk.pages = 9;
  evict_progress progress(disk, 700);
  EXPECT_EQ(progress.take(disk), evict_progress::state::going_on);
  disk.bytes_used = 300;
  disk.evicted = 9;
  EXPECT_EQ(progress.take(disk), evict_progress::state::reached);
  EXPECT_EQ(progress.free_bytes(), 700u);
  EXPECT_EQ(progress.evicted_pages(), 4u);
}

TEST(disk_status, all_is_evicted_when_no_page_is_left_whatever_the_store_keeps_for_itself) {
  auto disk = healthy_tier();
  disk.pages = 5;
  evict_progress progress(disk, 0);
  EXPECT_EQ(progress.take(disk), evict_progress::state::going_on);
  disk.pages = 0;
  disk.evicted = 5;
  EXPECT_EQ(progress.take(disk), evict_progress::state::going_on) << "its room is not free yet";
  for (disk.bytes_used = 600; disk.bytes_used != 100; disk.bytes_used -= 10)
    ASSERT_EQ(progress.take(disk), evict_progress::state::going_on) << "file by file";
  EXPECT_EQ(progress.take(disk), evict_progress::state::going_on);
  for (int i = 1; i < evict_progress::reports_until_free; ++i)
    EXPECT_EQ(progress.take(disk), evict_progress::state::going_on) << i;
  EXPECT_EQ(progress.take(disk), evict_progress::state::reached);
  EXPECT_EQ(progress.free_bytes(), 900u);
  EXPECT_EQ(progress.pages_left(), 0u);
}

TEST(disk_status, an_eviction_ends_though_other_pages_come_as_fast) {
  for (const std::uint64_t wanted : {0, 900}) {
    auto disk = healthy_tier();
    disk.pages = 5;
    evict_progress progress(disk, wanted);
    auto state = evict_progress::state::going_on;
    for (int i = 0; i < 20 && state == evict_progress::state::going_on; ++i) {
      disk.evicted += 1; // One page went, and another one has come.
      disk.bytes_used = 600 + i % 2;
      state = progress.take(disk);
    }
    EXPECT_EQ(state, wanted == 0 ? evict_progress::state::reached : evict_progress::state::stuck);
    EXPECT_EQ(progress.pages_left(), 5u);
  }
}

TEST(disk_status, more_than_the_tier_has_cannot_be_wanted) {
  auto disk = healthy_tier();
  disk.pages = 5;
  evict_progress progress(disk, 5000);
  disk.bytes_used = 0;
  EXPECT_EQ(progress.take(disk), evict_progress::state::reached);
}

TEST(disk_status, an_eviction_that_gets_no_further_is_stuck_and_any_change_starts_anew) {
  auto disk = healthy_tier();
  disk.pages = 5;
  evict_progress progress(disk, 1000);
  progress.take(disk);
  for (int i = 1; i < evict_progress::reports_until_stuck; ++i)
    EXPECT_EQ(progress.take(disk), evict_progress::state::going_on) << i;
  disk.bytes_used -= 1;
  for (int i = 0; i < evict_progress::reports_until_stuck; ++i)
    EXPECT_EQ(progress.take(disk), evict_progress::state::going_on) << i;
  EXPECT_EQ(progress.take(disk), evict_progress::state::stuck);
}

} // namespace peercache::cli::disk_status_test
