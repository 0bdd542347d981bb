#include "actors/disk/disk_incidents.hpp"

#include "common/fault_ids.hpp"

#include <cerrno>
#include <gtest/gtest.h>

namespace peercache::actors {
namespace {

using namespace std::chrono_literals;
using storage::disk_tier_stats;

constexpr disk_incidents::time_point long_ago{100s};

/// Returns the log lines of one call of `look`, with '+' before a line that reports the end of an
/// incident.
std::string said(disk_incidents& all, disk_incidents::time_point now, const disk_tier_stats& stats,
                 int error = 0) {
  std::string text;
  disk_look seen;
  seen.stats = stats;
  seen.last_error = error;
  seen.unix_ms = 77;
  for (const auto& line : all.look(now, seen))
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
  stats.full = true;
  EXPECT_TRUE(has(said(all, long_ago, stats), "-the file system of /disk is full"));
  stats.full = false; // The tier tries the device again.
  EXPECT_EQ(said(all, long_ago + 1s, stats), "");
  stats.full = true;
  EXPECT_EQ(said(all, long_ago + 2s, stats), "");
  stats.full = false;
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

std::vector<std::string> open_ids(const disk_incidents& all) {
  std::vector<std::string> ids;
  for (const auto& fault : all.open())
    ids.push_back(fault.id);
  return ids;
}

double number_of(const disk_incidents& all, std::string_view kind) {
  metrics::samples numbers;
  all.add_numbers(numbers);
  return numbers.value(metrics::metric::disk_incident, {kind});
}

using names = std::vector<std::string>;

TEST(disk_incidents, a_trouble_is_a_fault_with_since_when_until_it_ends) {
  disk_incidents all("/disk");
  disk_tier_stats stats;
  stats.full = true;
  said(all, long_ago, stats);
  EXPECT_EQ(open_ids(all), names{fault_ids::disk_full});
  EXPECT_EQ(all.open()[0].since_ms, 77u);
  EXPECT_EQ(number_of(all, "full"), 1);
  EXPECT_EQ(number_of(all, "hung"), 0);
  stats.full = false;
  said(all, long_ago + 1h, stats);
  EXPECT_EQ(open_ids(all), names{fault_ids::disk_full}) << "no write has found room";
  stats.writes = 1;
  said(all, long_ago + 2h, stats);
  EXPECT_TRUE(all.open().empty());
  EXPECT_EQ(number_of(all, "full"), 0);
}

TEST(disk_incidents, wrong_bytes_are_remembered_until_all_was_read_and_whole) {
  disk_incidents all("/disk");
  disk_look seen;
  seen.stats.checksum_failures = 1;
  all.look(long_ago, seen);
  EXPECT_EQ(open_ids(all), names{fault_ids::disk_rotten});
  const auto verify = [&](std::uint64_t failures) {
    seen.verifying = true;
    all.look(long_ago + 1h, seen);
    seen.stats.checksum_failures += failures;
    seen.verifying = false;
    all.look(long_ago + 2h, seen);
  };
  verify(1);
  EXPECT_EQ(open_ids(all), names{fault_ids::disk_rotten});
  verify(0);
  EXPECT_TRUE(all.open().empty());
}

TEST(disk_incidents, a_page_that_takes_long_makes_the_device_slow_for_a_while) {
  disk_incidents all("/disk");
  disk_look seen;
  seen.slowest = disk_incidents::slow_after - 1ms;
  EXPECT_TRUE(all.look(long_ago, seen).empty());
  seen.slowest = disk_incidents::slow_after;
  EXPECT_TRUE(has(all.look(long_ago, seen).at(0).text, "/disk is slow: a page took 5.0 s"));
  EXPECT_EQ(open_ids(all), names{fault_ids::disk_slow});
  seen.slowest = {};
  EXPECT_TRUE(all.look(long_ago + disk_incidents::slow_for - 1ms, seen).empty());
  EXPECT_EQ(all.look(long_ago + disk_incidents::slow_for, seen).at(0).text, "/disk is fast again");
  EXPECT_TRUE(all.open().empty());
}

TEST(disk_incidents, a_thread_that_does_not_come_back_hangs) {
  disk_incidents all("/disk");
  auto now = long_ago;
  const auto watch = [&](disk_incidents::time_point turn_at) {
    now += 1s;
    return all.look_at_thread(now, turn_at, 5);
  };
  const auto stuck = long_ago;
  for (int i = 1; i < disk_incidents::hangs_after / 1s; ++i)
    EXPECT_TRUE(watch(stuck).empty());
  EXPECT_TRUE(has(watch(stuck).at(0).text, "/disk hangs: a call to the file system"));
  EXPECT_TRUE(watch(stuck).empty());
  EXPECT_EQ(open_ids(all), names{fault_ids::disk_hung});
  EXPECT_EQ(watch(now).at(0).text, "/disk answers again");
  EXPECT_TRUE(all.open().empty());
}

/// When the whole process was stopped, the watching thread stood still as well as the disk's
/// thread.
TEST(disk_incidents, a_process_that_was_stopped_blames_no_disk) {
  disk_incidents all("/disk");
  all.look_at_thread(long_ago, long_ago, 5);
  EXPECT_TRUE(all.look_at_thread(long_ago + 1h, long_ago, 5).empty());
  EXPECT_TRUE(all.look_at_thread(long_ago + 1h + 1s, long_ago + 1h, 5).empty());
}

TEST(disk_incidents, what_the_start_finds_stays) {
  disk_incidents all("/disk");
  all.has_other_files("files of the store `offset`", 5);
  all.is_off("no such folder", 6);
  EXPECT_TRUE(said(all, long_ago, {}).empty());
  EXPECT_EQ(open_ids(all), (names{fault_ids::disk_off, fault_ids::disk_other_store}));
  EXPECT_TRUE(has(all.open()[0].what, "no such folder"));
}

} // namespace
} // namespace peercache::actors
