#include "actors/monitoring/metrics_actor.hpp"
#include "metrics/metric_table.hpp"
#include "storage/disk/disk_tier.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace peercache::actors {

namespace {

using metrics::metric;

class metrics_state_test : public testing::Test {
protected:
  metrics_state_test() {
    state.options.board = std::make_shared<http_board>();
    state.options.page_server_stats = [this] { return server; };
    state.options.rail_stats = [this] { return rails; };
    state.options.datagram_stats = [] { return served_datagrams::counts{1, 2, 3, 4}; };
  }
  double value(metric id, metrics::label_words words = {}) const {
    return state.options.board->numbers.value(id, words);
  }

  page_server::snapshot server;
  std::vector<rdma::rail_servers::rail_snapshot> rails;
  metrics_state state;
};

} // namespace

TEST_F(metrics_state_test, what_a_node_says_is_in_the_scrape_by_its_name) {
  node_report node;
  double next = 1000;
  for (const auto& info : metrics::metric_table())
    if (info.labels.empty() && info.type != metrics::metric_type::histogram)
      node.samples.set(info.id, next++);
  node.samples.set(metric::clears_total, {"uncertain"}, 2);
  state.publish(node);
  next = 1000;
  for (const auto& info : metrics::metric_table())
    if (info.labels.empty() && info.id < metric::data_connections) {
      EXPECT_EQ(value(info.id), next++) << info.name;
    }
  EXPECT_EQ(value(metric::clears_total, {"uncertain"}), 2);
  const auto text = state.options.board->numbers.text();
  EXPECT_NE(text.find("\npeercache_uptime_seconds 1000\n"), std::string::npos) << text;
}

TEST_F(metrics_state_test, the_faults_of_the_cluster_are_in_the_scrape_until_they_are_over) {
  state.publish({});
  EXPECT_EQ(value(metric::cluster_faults, {"node-gone"}), 0);
  state.options.board->faults.store({{"node-gone", 2}});
  state.publish({});
  EXPECT_EQ(value(metric::cluster_faults, {"node-gone"}), 2);
  EXPECT_EQ(value(metric::cluster_faults, {"disk-full"}), 0);
  const auto text = state.options.board->numbers.text();
  EXPECT_NE(text.find("\npeercache_cluster_faults{id=\"node-gone\"} 2\n"), std::string::npos)
      << text;
  state.options.board->faults.store({});
  state.publish({});
  EXPECT_EQ(value(metric::cluster_faults, {"node-gone"}), 0);
}

TEST_F(metrics_state_test, what_its_data_planes_do_is_in_the_scrape) {
  server.connections = 1;
  server.stats.payloads = 2;
  server.stats.bytes_sent = 3;
  rails.resize(1);
  rails[0].device = "mlx5_0";
  rails[0].stats.serving = true;
  rails[0].stats.sessions = 4;
  rails[0].stats.regions.registered_bytes = 5;
  rails[0].stats.regions.failed = 6;
  rails[0].stats.windows_failed = 7;
  state.publish(node_report{});
  EXPECT_EQ(value(metric::data_connections), 1);
  EXPECT_EQ(value(metric::data_pages_sent_total), 2);
  EXPECT_EQ(value(metric::data_bytes_sent_total), 3);
  EXPECT_EQ(value(metric::rdma_rail_serving, {"mlx5_0"}), 1);
  EXPECT_EQ(value(metric::rdma_readers, {"mlx5_0"}), 4);
  EXPECT_EQ(value(metric::rdma_region_bytes, {"mlx5_0"}), 5);
  EXPECT_EQ(value(metric::rdma_chunks_failed, {"mlx5_0"}), 6);
  EXPECT_EQ(value(metric::rdma_windows_failed_total, {"mlx5_0"}), 7);
}

TEST_F(metrics_state_test, the_status_page_reads_the_same_numbers) {
  node_report node;
  node.version = "1.2";
  node.unready_reason = "joining";
  node.samples.set(metric::uptime_seconds, 1.5);
  node.samples.set(metric::is_leader, true);
  node.samples.set(metric::tls, true);
  node.samples.set(metric::insecure, false);
  node.samples.set(metric::view_version, 7);
  node.samples.set(metric::pool_puts_total, 8);
  node.silent = {"membership"};
  state.publish(node);
  const auto status = nlohmann::json::parse(*state.options.board->status.load());
  EXPECT_EQ(status["version"], "1.2");
  EXPECT_EQ(status["ready"], false);
  EXPECT_EQ(status["unready_reason"], "joining");
  EXPECT_EQ(status["uptime_ms"], 1500);
  EXPECT_EQ(status["leader"], true);
  EXPECT_EQ(status["tls"], true);
  EXPECT_EQ(status["insecure"], false);
  EXPECT_EQ(status["view"], 7);
  EXPECT_EQ(status["puts"], 8);
  EXPECT_EQ(status["silent"], nlohmann::json::array({"membership"}));
}

TEST_F(metrics_state_test, a_report_that_lacks_parts_ends_no_step_of_the_history) {
  const node_history::time_point now{};
  node_report whole, late;
  whole.samples.set(metric::hits_total, {"own_host"}, 100);
  late.silent = {"pool"};
  state.remember(whole, now, history_step_ms);
  state.remember(late, now, 2 * history_step_ms);
  EXPECT_TRUE(state.history.points().empty());
  whole.samples.set(metric::hits_total, {"own_host"}, 110);
  state.remember(whole, now, 3 * history_step_ms);
  ASSERT_EQ(state.history.points().size(), 1u);
  EXPECT_EQ(state.history.points().front().hits[0], 10u);
}

TEST_F(metrics_state_test, whatever_the_status_page_quotes_leaves_it_json) {
  node_report node;
  node.unready_reason = R"(the node 'a"b\c' says "no")";
  node.data_plane = "tcp: \xff\n";
  state.publish(node);
  const auto status = nlohmann::json::parse(*state.options.board->status.load(), nullptr, false);
  ASSERT_FALSE(status.is_discarded()) << *state.options.board->status.load();
  EXPECT_EQ(status["unready_reason"], node.unready_reason);
}

TEST_F(metrics_state_test, a_node_without_a_disk_tier_says_so_and_has_no_open_breaker) {
  state.publish(node_report{});
  EXPECT_EQ(value(metric::disk_on), 0);
  EXPECT_EQ(value(metric::disk_breaker_open), 0);
  EXPECT_EQ(state.options.board->numbers.text().find("peercache_disk_info{"), std::string::npos);
}

TEST_F(metrics_state_test, a_node_is_watched_for_a_while_after_each_look) {
  const auto now = std::chrono::steady_clock::now();
  const auto lasts = state.options.watching_lasts;
  EXPECT_FALSE(state.is_watched(now));
  EXPECT_FALSE(state.is_watched(std::chrono::steady_clock::time_point{} + lasts / 2))
      << "just booted";
  state.options.board->scraped = now;
  EXPECT_FALSE(state.is_watched(now)) << "a scrape has a report made";
  state.options.board->looked = now;
  EXPECT_TRUE(state.is_watched(now + lasts));
  EXPECT_FALSE(state.is_watched(now + lasts + std::chrono::milliseconds(1)));
}

/// The folder metrics/ may not include storage/, so both have a list of the reasons why pages are
/// not written to disk; the lists must be equal.
TEST(disk_skip_words, are_those_of_the_reasons_not_to_write_a_page) {
  static_assert(static_cast<std::size_t>(storage::write_skip::none) == 0);
  ASSERT_EQ(metrics::disk_skip_words.size(), storage::write_skips - 1);
  for (std::size_t i = 1; i < storage::write_skips; ++i)
    EXPECT_TRUE(std::ranges::count(metrics::disk_skip_words,
                                   to_string(static_cast<storage::write_skip>(i))))
        << i;
}

} // namespace peercache::actors
