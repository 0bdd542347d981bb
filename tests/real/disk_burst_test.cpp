// Tests of a burst of more pages than may wait for the disk: the node writes them when the disk has
// time, and at the latest when the node stops.

#include "disk_node.hpp"

#include <csignal>

namespace peercache::real {

using metrics::metric;
namespace {

class disk_burst : public testing::Test {
protected:
  /// Number of pages of a burst: three times as many as may wait for the disk, and fewer than the
  /// 512 that the pool holds.
  static constexpr std::uint32_t pages = 400;

  static disk_node::options with_policy(const std::string& policy) {
    disk_node::options options;
    options.flags = {"--disk-policy", policy, "--pool-eviction", "lru"};
    return options;
  }

  /// Sets the pages [first, first + count) in one call.
  static void set_at_once(disk_node& node, std::uint32_t first = 0, std::uint32_t count = pages) {
    ASSERT_TRUE(node.settled());
    const key_space space;
    std::vector<std::vector<std::byte>> bytes(count, std::vector<std::byte>(disk_node::page_bytes));
    std::vector<client::const_part> parts(count);
    std::vector<client::set_page> batch;
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto id = first + i;
      bench::fill_page(id, 0, bytes[i]);
      parts[i] = {bytes[i].data(), disk_node::page_bytes};
      batch.push_back({space.key_of("disk-" + std::to_string(id)), {&parts[i], 1}});
    }
    std::vector<client::page_result> results(count);
    node.client().set(batch, results);
    for (const auto& result : results)
      ASSERT_EQ(result.status, page_status::stored);
    ASSERT_TRUE(node.client().flush());
  }
};

TEST_F(disk_burst, that_is_written_through_is_on_disk_when_the_disk_had_time) {
  disk_node node(with_policy("write_through"));
  set_at_once(node);
  EXPECT_TRUE(within(milliseconds(20'000), [&] {
    const auto now = node.status();
    return now && now->count(metric::disk_records) == pages;
  })) << node.status()->count(metric::disk_records);
}

TEST_F(disk_burst, is_on_disk_when_its_node_is_drained_whatever_the_policy) {
  disk_node node(with_policy("on_evict"));
  set_at_once(node);
  EXPECT_LT(node.status()->count(metric::disk_records), pages) << "it would be in memory only";
  const auto said = run_cli(
      {"--node", node.address(), "--cluster", node.cluster(), "drain", node.name(), "--yes"});
  EXPECT_EQ(said.exit_code, 0) << said.output;
  EXPECT_TRUE(within(milliseconds(20'000), [&] {
    const auto now = node.status();
    return now && now->count(metric::disk_records) == pages;
  })) << node.log();
}

TEST_F(disk_burst, does_not_keep_a_drain_at_a_disk_that_hangs) {
  constexpr milliseconds drain_timeout(2000), slack(1000);
  auto options = with_policy("on_evict");
  options.flags.insert(options.flags.end(),
                       {"--drain-timeout", std::to_string(drain_timeout.count()) + "ms"});
  options.environment = {{"PEERCACHE_TEST_DISK_STALL_MS", "60000"}};
  disk_node node(options);
  set_at_once(node);
  const auto begin = clock::now();
  std::vector<std::string> drain{"--node",    node.address(), "--cluster", node.cluster(), "drain",
                                 node.name(), "--yes",        "-o",        "json"};
  const auto said = run_cli(drain);
  const auto took = clock::now() - begin;
  EXPECT_EQ(said.exit_code, 3) << said.output;
  EXPECT_EQ(said.json().value("complete", true), false) << said.output;
  EXPECT_GT(said.json().value("unwritten_pages", 0), 0) << said.output;
  EXPECT_GE(took, drain_timeout * 9 / 10) << "the disk was to have its time";
  EXPECT_LE(took, drain_timeout + slack);
  EXPECT_NE(node.log().find("in memory only"), std::string::npos) << node.log();
  EXPECT_EQ(node.count_hits(0, pages), pages) << "the drained node is still read";
  drain.insert(drain.end(), {"--wait", "1ms", "--timeout", "500ms"});
  const auto later = run_cli(drain);
  EXPECT_EQ(later.exit_code, 3) << later.output << "the node answers, and is not done";
  EXPECT_TRUE(later.json()["handed_over"].is_null()) << later.output;
}

class disk_burst_restart : public disk_burst, public testing::WithParamInterface<std::string> {};
INSTANTIATE_TEST_SUITE_P(with, disk_burst_restart, testing::Values("write_through", "on_evict"),
                         [](const auto& info) { return info.param; });

/// Sets three times as many pages as the pool holds, with time for the disk between the sets. Each
/// set evicts pages that are lost unless the node has written them to disk before. The node learns
/// from the first set how much room a set needs, so only pages that the first set evicts may be
/// lost.
TEST_P(disk_burst_restart, pushes_out_no_page_that_is_not_on_disk) {
  constexpr std::uint32_t batch = 64, total = 1536;
  disk_node node(with_policy(GetParam()));
  for (std::uint32_t first = 0; first < total; first += batch)
    ASSERT_NO_FATAL_FAILURE(set_at_once(node, first, batch));
  ASSERT_TRUE(node.settled());
  const auto lost = node.status()->samples.count(metric::disk_skips_total, {"evicted"});
  EXPECT_LE(lost, batch);
  EXPECT_GE(node.count_hits(0, total) + lost, total);
  EXPECT_GE(node.status()->count(metric::disk_records), total - 512 - lost) << "the pool's are 512";
}

TEST_P(disk_burst_restart, is_found_after_a_clean_restart) {
  disk_node node(with_policy(GetParam()));
  set_at_once(node);
  ASSERT_EQ(::kill(node.pid(), SIGTERM), 0);
  ASSERT_TRUE(node.bury(milliseconds(20'000)));
  ASSERT_TRUE(node.start({}));
  ASSERT_TRUE(node.settled());
  EXPECT_EQ(node.count_hits(0, pages), pages) << node.log();
}

} // namespace
} // namespace peercache::real
