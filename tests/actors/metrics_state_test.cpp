#include "actors/metrics_actor.hpp"
#include "storage/disk/disk_tier.hpp"

#include <gtest/gtest.h>

namespace peercache::actors {

namespace {

using metrics::metric;

/// A report in which no two numbers are equal.
node_report node_with_disk() {
  node_report node;
  auto& disk = node.disk;
  disk.on = true;
  disk.store = "bucket";
  disk.io = "io_uring";
  disk.scanned = 0.5;
  std::uint64_t next = 1000;
  for (auto* number : {&disk.bytes_used,      &disk.bytes_capacity,
                       &disk.pages,           &disk.page_bytes,
                       &disk.files,           &disk.queue_bytes,
                       &disk.queue_pages,     &disk.writes,
                       &disk.written_bytes,   &disk.write_errors,
                       &disk.reads,           &disk.read_bytes,
                       &disk.read_errors,     &disk.checksum_failures,
                       &disk.evicted,         &disk.expired,
                       &disk.scrubbed_bytes,  &disk.breaker_opened,
                       &disk.recovered,       &disk.torn,
                       &disk.foreign,         &disk.replaced,
                       &disk.corrupt,         &node.promotes.promoted,
                       &node.promotes.joined, &node.promotes.in_pool,
                       &node.promotes.missed, &node.promotes.refused,
                       &node.promotes.warmed, &node.promotes.on_its_way})
    *number = next++;
  disk.breaker = "closed";
  return node;
}

double value(const metrics_state& state, metric id, metrics::registry::label_words words = {}) {
  return state.registry.value(id, words);
}

} // namespace

TEST(metrics_state, what_the_disk_tier_holds_and_did_is_in_the_scrape) {
  const auto node = node_with_disk();
  metrics_state state;
  state.take(node);
  const auto& disk = node.disk;
  EXPECT_EQ(value(state, metric::disk_on), 1);
  EXPECT_EQ(value(state, metric::disk_info, {"bucket", "io_uring"}), 1);
  EXPECT_EQ(value(state, metric::disk_scanned_ratio), 0.5);
  const std::pair<metric, std::uint64_t> numbers[] = {
      {metric::disk_bytes, disk.bytes_used},
      {metric::disk_bytes_capacity, disk.bytes_capacity},
      {metric::disk_records, disk.pages},
      {metric::disk_record_bytes, disk.page_bytes},
      {metric::disk_files, disk.files},
      {metric::disk_queue_bytes, disk.queue_bytes},
      {metric::disk_queue_pages, disk.queue_pages},
      {metric::disk_writes_total, disk.writes},
      {metric::disk_written_bytes_total, disk.written_bytes},
      {metric::disk_reads_total, disk.reads},
      {metric::disk_read_bytes_total, disk.read_bytes},
      {metric::disk_checksum_failures_total, disk.checksum_failures},
      {metric::disk_evictions_total, disk.evicted},
      {metric::disk_expirations_total, disk.expired},
      {metric::disk_scrubbed_bytes_total, disk.scrubbed_bytes},
      {metric::disk_breaker_opened_total, disk.breaker_opened},
      {metric::disk_recovered_records, disk.recovered},
      {metric::disk_warmed_total, node.promotes.warmed},
      {metric::disk_promotes_on_their_way, node.promotes.on_its_way}};
  for (const auto& [id, wanted] : numbers)
    EXPECT_EQ(value(state, id), static_cast<double>(wanted)) << metrics::info_of(id).name;
}

TEST(metrics_state, errors_drops_and_promotes_of_the_disk_are_told_apart) {
  const auto node = node_with_disk();
  metrics_state state;
  state.take(node);
  const auto is = [&](metric id, std::string_view word, std::uint64_t wanted) {
    EXPECT_EQ(value(state, id, {word}), static_cast<double>(wanted)) << word;
  };
  is(metric::disk_errors_total, "write", node.disk.write_errors);
  is(metric::disk_errors_total, "read", node.disk.read_errors);
  is(metric::disk_dropped_records, "torn", node.disk.torn);
  is(metric::disk_dropped_records, "foreign", node.disk.foreign);
  is(metric::disk_dropped_records, "replaced", node.disk.replaced);
  is(metric::disk_dropped_records, "corrupt", node.disk.corrupt);
  is(metric::disk_promotes_total, "promoted", node.promotes.promoted);
  is(metric::disk_promotes_total, "joined", node.promotes.joined);
  is(metric::disk_promotes_total, "in_pool", node.promotes.in_pool);
  is(metric::disk_promotes_total, "missed", node.promotes.missed);
  is(metric::disk_promotes_total, "refused", node.promotes.refused);
}

TEST(metrics_state, every_reason_not_to_write_a_page_is_counted_by_its_word) {
  auto node = node_with_disk();
  for (std::size_t i = 0; i < storage::write_skips; ++i)
    node.disk.skipped[std::string(to_string(static_cast<storage::write_skip>(i)))] = i + 1;
  metrics_state state;
  state.take(node);
  static_assert(static_cast<std::size_t>(storage::write_skip::none) == 0);
  for (std::size_t i = 1; i < storage::write_skips; ++i)
    EXPECT_EQ(
        value(state, metric::disk_skips_total, {to_string(static_cast<storage::write_skip>(i))}),
        static_cast<double>(i + 1));
}

TEST(metrics_state, the_breaker_counts_as_open_until_it_is_closed_again) {
  auto node = node_with_disk();
  metrics_state state;
  for (const auto& [word, open] :
       {std::pair{"closed", 0}, {"open", 1}, {"half_open", 1}, {"closed", 0}}) {
    node.disk.breaker = word;
    state.take(node);
    EXPECT_EQ(value(state, metric::disk_breaker_open), open) << word;
  }
}

TEST(metrics_state, what_clears_did_is_in_the_scrape) {
  node_report node;
  node.clearing.certain = 1;
  node.clearing.uncertain = 2;
  node.clearing.spaces = 3;
  node.clearing.missing = 4;
  node.pool.cleared = 5;
  node.disk.cleared = 6;
  metrics_state state;
  state.take(node);
  EXPECT_EQ(value(state, metric::clears_total, {"certain"}), 1);
  EXPECT_EQ(value(state, metric::clears_total, {"uncertain"}), 2);
  EXPECT_EQ(value(state, metric::cleared_spaces), 3);
  EXPECT_EQ(value(state, metric::clear_nodes_missing), 4);
  EXPECT_EQ(value(state, metric::cleared_pages_total, {"memory"}), 5);
  EXPECT_EQ(value(state, metric::cleared_pages_total, {"disk"}), 6);
}

TEST(metrics_state, a_node_without_a_disk_tier_says_so_and_has_no_open_breaker) {
  metrics_state state;
  state.take(node_report{});
  EXPECT_EQ(value(state, metric::disk_on), 0);
  EXPECT_EQ(value(state, metric::disk_breaker_open), 0);
  EXPECT_EQ(state.registry.text().find("peercache_disk_info{"), std::string::npos);
}

} // namespace peercache::actors
