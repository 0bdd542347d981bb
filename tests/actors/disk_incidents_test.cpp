#include "actors/disk_incidents.hpp"

#include <cerrno>
#include <gtest/gtest.h>

namespace peercache::actors {
namespace {

using namespace std::chrono_literals;
using storage::disk_tier_stats;

constexpr disk_incidents::time_point long_ago{100s};

/// Returns the lines of one call of `look`, with '+' before a line that tells the end of a trouble.
std::string said(disk_incidents& all, disk_incidents::time_point now, const disk_tier_stats& stats,
                 int error = 0) {
  std::string text;
  for (const auto& line : all.look(now, stats, error))
    text += (line.well ? "+" : "-") + line.text;
  return text;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(disk_incidents, a_disk_that_works_is_no_news) {
  disk_incidents all("/disk");
  disk_tier_stats stats;
  for (int i = 0; i < 100; ++i) {
    ++stats.writes;
    stats.queue_pages = 7;
    EXPECT_EQ(said(all, long_ago + i * 1s, stats), "");
  }
  stats.queue_pages = 0;
  EXPECT_EQ(said(all, long_ago + 1h, stats), "") << "nothing to write is no hang";
}

TEST(disk_incidents, failures_are_told_once_with_their_reason_and_their_end) {
  disk_incidents all("/disk");
  disk_tier_stats stats;
  stats.write_errors = 10;
  stats.breaker = circuit_breaker::state::open;
  const auto first = said(all, long_ago, stats, EIO);
  EXPECT_TRUE(has(first, "-/disk fails") && has(first, "10 writes") &&
              has(first, "Input/output error"))
      << first;
  stats.breaker = circuit_breaker::state::half_open;
  EXPECT_EQ(said(all, long_ago + 1s, stats, EIO), "");
  stats.breaker = circuit_breaker::state::closed;
  EXPECT_EQ(said(all, long_ago + 2s, stats, EIO), "+/disk works again");
}

TEST(disk_incidents, a_full_disk_has_room_when_a_write_ends_well) {
  disk_incidents all("/disk");
  disk_tier_stats stats;
  stats.writes = 5;
  stats.read_only = true;
  EXPECT_TRUE(has(said(all, long_ago, stats), "-the file system of /disk is full"));
  stats.read_only = false; // The device is tried again.
  EXPECT_EQ(said(all, long_ago + 1s, stats), "");
  stats.read_only = true;
  EXPECT_EQ(said(all, long_ago + 2s, stats), "");
  stats.read_only = false;
  stats.writes = 6;
  EXPECT_EQ(said(all, long_ago + 3s, stats), "+/disk has room again");
}

TEST(disk_incidents, a_disk_that_was_full_between_two_looks_is_told) {
  disk_incidents all("/disk");
  disk_tier_stats stats;
  stats.writes = 5;
  stats.no_space_errors = 1;
  EXPECT_TRUE(has(said(all, long_ago, stats), "-the file system of /disk is full"));
  EXPECT_EQ(said(all, long_ago + 1s, stats), "");
  stats.writes = 6;
  EXPECT_EQ(said(all, long_ago + 2s, stats), "+/disk has room again");
}

TEST(disk_incidents, wrong_bytes_are_counted_in_few_lines) {
  disk_incidents all("/disk");
  disk_tier_stats stats;
  stats.checksum_failures = 3;
  EXPECT_TRUE(has(said(all, long_ago, stats), "3 pages since the last word, 3 since the start"));
  stats.checksum_failures = 8;
  EXPECT_EQ(said(all, long_ago + 1s, stats), "");
  EXPECT_TRUE(has(said(all, long_ago + disk_incidents::rot_pause, stats),
                  "5 pages since the last word, 8 since the start"));
  EXPECT_EQ(said(all, long_ago + 1h, stats), "");
}

TEST(disk_incidents, writes_that_never_end_are_a_device_that_hangs) {
  disk_incidents all("/disk");
  disk_tier_stats stats;
  EXPECT_EQ(said(all, long_ago, stats), "");
  stats.queue_pages = 4;
  EXPECT_EQ(said(all, long_ago + 1s, stats), "");
  EXPECT_TRUE(
      has(said(all, long_ago + disk_incidents::hangs_after, stats), "-/disk hangs: 4 pages"));
  EXPECT_EQ(said(all, long_ago + 1min, stats), "");
  stats.writes = 1;
  EXPECT_EQ(said(all, long_ago + 2min, stats), "+/disk takes writes again");
}

} // namespace
} // namespace peercache::actors
