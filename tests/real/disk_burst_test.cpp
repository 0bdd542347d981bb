// A burst of more pages than may wait for the disk: they come to disk when it has time, and at the
// latest when the node stops.

#include "disk_node.hpp"

#include <csignal>

namespace peercache::real {

using metrics::metric;
namespace {

class disk_burst : public testing::Test {
protected:
  /// Pages of a burst: three times what may wait for the disk. The pool holds 512.
  static constexpr std::uint32_t pages = 400;

  static disk_node::options with_policy(const std::string& policy) {
    disk_node::options options;
    options.flags = {"--disk-policy", policy, "--pool-eviction", "lru"};
    return options;
  }

  static void set_at_once(disk_node& node) {
    ASSERT_TRUE(node.settled());
    const key_space space;
    std::vector<std::vector<std::byte>> bytes(pages, std::vector<std::byte>(disk_node::page_bytes));
    std::vector<client::const_part> parts(pages);
    std::vector<client::set_page> batch;
    for (std::uint32_t id = 0; id < pages; ++id) {
      bench::fill_page(id, 0, bytes[id]);
      parts[id] = {bytes[id].data(), disk_node::page_bytes};
      batch.push_back({space.key_of("disk-" + std::to_string(id)), {&parts[id], 1}});
    }
    std::vector<client::page_result> results(pages);
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
  const auto said =
      run_cli({"--node", node.address(), "--cluster", node.cluster(), "drain", node.name()});
  EXPECT_EQ(said.exit_code, 0) << said.output;
  EXPECT_TRUE(within(milliseconds(20'000), [&] {
    const auto now = node.status();
    return now && now->count(metric::disk_records) == pages;
  })) << node.log();
}

class disk_burst_restart : public disk_burst, public testing::WithParamInterface<std::string> {};
INSTANTIATE_TEST_SUITE_P(with, disk_burst_restart, testing::Values("write_through", "on_evict"),
                         [](const auto& info) { return info.param; });

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
