#include "cli/disk_status.hpp"

#include <gtest/gtest.h>

namespace peercache::cli::disk_status_test {

namespace {

using client::node_status;
using metrics::metric;

node_status healthy_tier() {
  node_status node;
  node.disk.path = "/disk/node-1";
  node.disk.store = "bucket";
  node.disk.io = "io_uring";
  node.disk.breaker = "closed";
  node.samples.set(metric::disk_on, true);
  node.samples.set(metric::disk_scanned_ratio, 1);
  node.samples.set(metric::disk_bytes_capacity, 1000);
  node.samples.set(metric::disk_bytes, 600);
  node.samples.set(metric::disk_record_bytes, 500);
  return node;
}

bool says(const node_status& node, const std::string& part) {
  return disk_text(node).find(part) != std::string::npos;
}

} // namespace

TEST(disk_status, a_tier_that_is_well_ends_with_0_and_anything_else_says_what_it_is) {
  auto disk = healthy_tier();
  EXPECT_EQ(disk_exit_code(disk), exit_code::ok);
  disk.samples.set(metric::disk_scanned_ratio, 0.25);
  EXPECT_EQ(disk_exit_code(disk), exit_code::degraded);
  EXPECT_TRUE(says(disk, "being scanned, 25 % done")) << disk_text(disk);
  disk = healthy_tier();
  disk.disk.breaker = "half_open";
  EXPECT_EQ(disk_exit_code(disk), exit_code::degraded);
  EXPECT_TRUE(says(disk, "breaker half_open")) << disk_text(disk);
  disk = healthy_tier();
  disk.samples.set(metric::disk_read_only, true);
  EXPECT_EQ(disk_exit_code(disk), exit_code::degraded);
  EXPECT_TRUE(says(disk, "read-only: the device is full")) << disk_text(disk);
}

TEST(disk_status, a_trouble_that_lasts_is_told_and_keeps_the_tier_from_being_well) {
  auto disk = healthy_tier();
  disk.disk.faults.emplace_back("disk-slow", "/disk is slow", "", 1'800'000'000'000);
  EXPECT_EQ(disk_exit_code(disk), exit_code::degraded);
  EXPECT_TRUE(says(disk, "/disk is slow (since 2027-01-15 08:00:00 UTC) [disk-slow]"))
      << disk_text(disk);
  EXPECT_EQ(disk_json(disk)["incidents"][0]["id"], "disk-slow");
}

TEST(disk_status, without_a_tier_it_fails_and_says_why_and_nothing_else) {
  node_status disk;
  disk.disk.why_off = "disk.path is empty";
  EXPECT_EQ(disk_exit_code(disk), exit_code::failed);
  EXPECT_TRUE(says(disk, "off: disk.path is empty")) << disk_text(disk);
  EXPECT_FALSE(says(disk, "folder"));
}

TEST(disk_status, only_reasons_that_happened_are_named_and_json_has_all) {
  auto disk = healthy_tier();
  EXPECT_TRUE(says(disk, "none")) << disk_text(disk);
  disk.samples.set(metric::disk_skips_total, {"queue_full"}, 12'345);
  disk.samples.set(metric::disk_skips_total, {"read_only"}, 0);
  EXPECT_TRUE(says(disk, "12,345 queue_full")) << disk_text(disk);
  EXPECT_FALSE(says(disk, "0 read_only")) << disk_text(disk);
  const auto data = disk_json(disk);
  EXPECT_EQ(data["skipped"]["queue_full"], 12'345);
  EXPECT_EQ(data["skipped"]["read_only"], 0);
  EXPECT_EQ(data["recovered"]["torn"], 0);
  EXPECT_EQ(data["write_latency"]["count"], 0);
}

TEST(disk_status, a_report_without_the_tier_s_part_says_nothing_of_it) {
  const auto before = healthy_tier();
  node_status silent;
  silent.silent = {link::node_parts::disk};
  EXPECT_EQ(disk_exit_code(silent), exit_code::degraded);
  EXPECT_TRUE(says(silent, "not known: it does not answer")) << disk_text(silent);
  EXPECT_EQ(disk_json(silent)["known"], false);
  EXPECT_EQ(disk_json(before)["known"], true);
  verify_progress verify(before);
  evict_progress evict(before, 0);
  for (int i = 0; i < 2 * evict_progress::reports_until_stuck; ++i) {
    ASSERT_FALSE(verify.take(silent));
    ASSERT_EQ(evict.take(silent), evict_progress::state::going_on);
  }
}

TEST(disk_status, a_verify_is_done_when_two_reports_say_so) {
  auto disk = healthy_tier();
  disk.samples.set(metric::disk_scrubbed_bytes_total, 10'000);
  disk.samples.set(metric::disk_checksum_failures_total, 2);
  disk.samples.set(metric::disk_errors_total, {"read"}, 5);
  verify_progress progress(disk);
  EXPECT_EQ(progress.total_bytes(), 500u);
  EXPECT_FALSE(progress.take(disk)) << "may be older than the beginning";
  disk.disk.verifying = true;
  disk.samples.add(metric::disk_scrubbed_bytes_total, 300);
  EXPECT_FALSE(progress.take(disk));
  EXPECT_EQ(progress.read_bytes(), 300u);
  disk.disk.verifying = false;
  disk.samples.add(metric::disk_scrubbed_bytes_total, 100);
  disk.samples.add(metric::disk_checksum_failures_total, 1);
  disk.samples.add(metric::disk_errors_total, {"read"}, 3);
  EXPECT_FALSE(progress.take(disk));
  EXPECT_TRUE(progress.take(disk));
  EXPECT_EQ(progress.unread(), 3u);
  EXPECT_EQ(progress.read_bytes(), 400u);
  EXPECT_EQ(progress.failures(), 1u) << "those from before are not its";
}

TEST(disk_status, an_eviction_is_done_when_so_many_bytes_are_free) {
  auto disk = healthy_tier();
  disk.samples.set(metric::disk_evictions_total, 5);
  disk.samples.set(metric::disk_records, 9);
  evict_progress progress(disk, 700);
  EXPECT_EQ(progress.take(disk), evict_progress::state::going_on);
  disk.samples.set(metric::disk_bytes, 300);
  disk.samples.set(metric::disk_evictions_total, 9);
  EXPECT_EQ(progress.take(disk), evict_progress::state::reached);
  EXPECT_EQ(progress.free_bytes(), 700u);
  EXPECT_EQ(progress.evicted_pages(), 4u);
}

TEST(disk_status, all_is_evicted_when_no_page_is_left_whatever_the_store_keeps_for_itself) {
  auto disk = healthy_tier();
  disk.samples.set(metric::disk_records, 5);
  evict_progress progress(disk, 0);
  EXPECT_EQ(progress.take(disk), evict_progress::state::going_on);
  disk.samples.set(metric::disk_records, 0);
  disk.samples.set(metric::disk_evictions_total, 5);
  EXPECT_EQ(progress.take(disk), evict_progress::state::going_on) << "its room is not free yet";
  for (int used = 600; used != 100; used -= 10) {
    disk.samples.set(metric::disk_bytes, used);
    ASSERT_EQ(progress.take(disk), evict_progress::state::going_on) << "file by file";
  }
  disk.samples.set(metric::disk_bytes, 100);
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
    disk.samples.set(metric::disk_records, 5);
    evict_progress progress(disk, wanted);
    auto state = evict_progress::state::going_on;
    for (int i = 0; i < 20 && state == evict_progress::state::going_on; ++i) {
      // The disk has evicted one page and written another one.
      disk.samples.add(metric::disk_evictions_total, 1);
      disk.samples.set(metric::disk_bytes, 600 + i % 2);
      state = progress.take(disk);
    }
    EXPECT_EQ(state, wanted == 0 ? evict_progress::state::reached : evict_progress::state::stuck);
    EXPECT_EQ(progress.pages_left(), 5u);
  }
}

TEST(disk_status, more_than_the_tier_has_cannot_be_wanted) {
  auto disk = healthy_tier();
  disk.samples.set(metric::disk_records, 5);
  evict_progress progress(disk, 5000);
  disk.samples.set(metric::disk_bytes, 0);
  EXPECT_EQ(progress.take(disk), evict_progress::state::reached);
}

TEST(disk_status, an_eviction_that_gets_no_further_is_stuck_and_any_change_starts_anew) {
  auto disk = healthy_tier();
  disk.samples.set(metric::disk_records, 5);
  evict_progress progress(disk, 1000);
  progress.take(disk);
  for (int i = 1; i < evict_progress::reports_until_stuck; ++i)
    EXPECT_EQ(progress.take(disk), evict_progress::state::going_on) << i;
  disk.samples.set(metric::disk_bytes, 599);
  for (int i = 0; i < evict_progress::reports_until_stuck; ++i)
    EXPECT_EQ(progress.take(disk), evict_progress::state::going_on) << i;
  EXPECT_EQ(progress.take(disk), evict_progress::state::stuck);
}

} // namespace peercache::cli::disk_status_test
