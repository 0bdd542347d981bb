#include "clear_cluster.hpp"
#include "disk_node.hpp"
#include "local_ring.hpp"

#include "metrics/metric_table.hpp"
#include "metrics/process_metrics.hpp"

#include <httplib.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>

namespace peercache::real {

namespace {

class metrics_scrape : public local_ring {
protected:
  std::string body_of(std::size_t index, const char* path, int expected_status = 200) {
    httplib::Client http{"127.0.0.1", node(index).ports().http_port};
    auto answer = http.Get(path);
    EXPECT_TRUE(answer) << path;
    EXPECT_EQ(answer ? answer->status : 0, expected_status) << path;
    return answer ? answer->body : "";
  }

  /// Returns the value of a series in a node's metrics; nothing when the series is not there.
  std::optional<double> value_of(std::size_t index, const std::string& series) {
    auto text = body_of(index, "/metrics");
    auto line = text.find("\n" + series + " ");
    if (line == std::string::npos)
      return std::nullopt;
    return std::stod(text.substr(line + series.size() + 2));
  }
};

bool has(const metrics::samples& said, metrics::metric id) {
  const auto is_its = [id](const auto& entry) { return entry.first.id == id; };
  return std::ranges::any_of(said.values(), is_its) ||
         std::ranges::any_of(said.latencies(), is_its);
}

/// Metrics of nodes with a long expiry: a neighbour that has ended stays in their view.
class metrics_scrape_of_gone : public metrics_scrape {
protected:
  void SetUp() override {
    prototype_.flags = {"--discovery-expiry", "60s"};
    metrics_scrape::SetUp();
  }
};

/// Whether a lone node without rails has no value of this metric. Tests that cover these metrics:
/// those of data planes and the overview in tests/actors/monitoring/metrics_state_test.cpp, of
/// peers below, of handed-over records in tests/actors/directory/directory_actor_test.cpp, of
/// hand-over workers in tests/client/handoff/hand_over_counts_test.cpp, of refused series in
/// tests/metrics/registry_test.cpp.
bool is_of_others(const metrics::metric_info& info) {
  return (info.name.starts_with("peercache_data_") &&
          info.id != metrics::metric::data_plane_info) ||
         info.name.starts_with("peercache_rdma_") || info.name.starts_with("peercache_tcp_peer_") ||
         info.name.starts_with("peercache_handoff_") ||
         info.id == metrics::metric::cluster_faults ||
         info.id == metrics::metric::directory_handed_over_total ||
         info.id == metrics::metric::directory_datagrams_total || // Off by default.
         info.id == metrics::metric::series_refused_total;
}

} // namespace

TEST(metrics_source, every_metric_of_the_table_has_a_value_from_whoever_counts_it) {
  disk_node node({});
  ASSERT_NO_FATAL_FAILURE(node.put_to_disk(0, 700)); // More pages than the pool holds.
  auto& client = node.client();
  const std::array keys{key_space{}.key_of("disk-0"), key_space{}.key_of("disk-699")};
  std::array<client::page_result, keys.size()> results;
  client.exists(keys, results); // The first page is on disk only, so this makes the node warm it.
  client.remove(std::span(keys).last(1), std::span(results).last(1));
  EXPECT_EQ(node.get(1).result.status, page_status::hit);
  EXPECT_TRUE(client.clear("of-nobody", clock::now() + milliseconds(10'000)).certain);
  std::string missing = "all";
  within(milliseconds(10'000), [&] {
    const auto now = node.status();
    missing = now ? "" : "no answer";
    for (const auto& info : metrics::metric_table())
      if (now && !is_of_others(info) && !has(now->samples, info.id))
        missing.append(info.name).append(" ");
    return missing.empty();
  });
  EXPECT_EQ(missing, "");
}

TEST_F(metrics_scrape, has_every_metric_of_the_table_and_no_other) {
  ASSERT_TRUE(within(milliseconds(5000),
                     [&] { return value_of(0, "peercache_pool_bytes_capacity").value_or(0) > 0; }));
  auto text = body_of(0, "/metrics");
  std::size_t documented = 0;
  for (const auto& metric : metrics::metric_table())
    documented += text.find("# TYPE " + std::string{metric.name} + " ") != std::string::npos;
  EXPECT_EQ(documented, metrics::metric_table().size());
  std::size_t scraped = 0;
  for (auto at = text.find("# TYPE "); at != std::string::npos; at = text.find("# TYPE ", at + 1))
    ++scraped;
  EXPECT_EQ(scraped, metrics::metric_table().size() + metrics::process_metrics().size());
}

TEST_F(metrics_scrape, counts_what_a_clear_did) {
  const auto engine = client_of(1);
  clear_test::set(*engine, "llama", 0, 5, 0);
  ASSERT_TRUE(engine->flush(clock::now() + publish_patience));
  const auto said = client_of(0)->clear("llama", clock::now() + publish_patience);
  ASSERT_TRUE(said.certain) << said.why_not;
  EXPECT_TRUE(within(milliseconds(10'000), [&] {
    return value_of(0, R"(peercache_clears_total{result="certain"})") == 1 &&
           value_of(1, R"(peercache_clears_total{result="certain"})").value_or(0) == 0 &&
           value_of(1, R"(peercache_cleared_pages_total{tier="memory"})") == 5 &&
           value_of(1, "peercache_cleared_spaces") == 1 &&
           value_of(1, "peercache_clear_nodes_missing") == 0;
  }));
}

TEST_F(metrics_scrape, counts_what_the_clients_of_the_host_did) {
  auto producer = client_of(1);
  auto reader = client_of(0);
  put(*producer, 0, 8);
  for (std::uint32_t id = 0; id < 8; ++id)
    ASSERT_EQ(get(*reader, id).result.status, page_status::hit);
  get(*reader, 99);
  EXPECT_TRUE(within(milliseconds(10'000), [&] {
    return value_of(0, R"(peercache_hits_total{source="other_host"})") == 8 &&
           value_of(0, R"(peercache_misses_total{reason="not_found"})") == 1 &&
           value_of(0, R"(peercache_tcp_peer_reads_total{peer="node-2"})") == 8 &&
           value_of(0, R"(peercache_tcp_peer_bytes_total{peer="node-2"})") == 8.0 * page_bytes &&
           value_of(0, R"(peercache_tcp_peer_errors_total{peer="node-2"})") == 0 &&
           value_of(1, R"(peercache_pages_total{op="set",result="stored"})") == 8 &&
           value_of(1, "peercache_pool_pages") == 8 &&
           value_of(1, "peercache_data_pages_sent_total") == 8 &&
           value_of(1, "peercache_members") == 3;
  }));
  EXPECT_GT(value_of(0, R"(peercache_op_seconds_count{op="get"})").value_or(0), 8);
  EXPECT_GT(value_of(0, "process_open_fds").value_or(0), 10);
  EXPECT_GT(value_of(0, "process_cpu_seconds_total").value_or(0), 0);
}

TEST_F(metrics_scrape_of_gone, a_peer_whose_data_port_refuses_is_counted_by_its_name) {
  const auto writer = client_of(1);
  const auto reader = client_of(0);
  put(*writer, 0, 8);
  ASSERT_EQ(count_existing(*reader, 0, 8), 8u);
  node(1).process().kill_now();
  std::uint32_t id = 0;
  EXPECT_TRUE(within(milliseconds(20'000), [&] {
    EXPECT_NE(get(*reader, id++ % 8).result.status, page_status::hit);
    return value_of(0, R"(peercache_tcp_peer_errors_total{peer="node-2"})").value_or(0) > 0;
  }));
  EXPECT_EQ(value_of(0, R"(peercache_tcp_peer_errors_total{peer="node-3"})").value_or(0), 0);
}

TEST_F(metrics_scrape, health_and_readiness_are_two_things) {
  EXPECT_EQ(body_of(0, "/healthz").substr(0, 2), "ok");
  EXPECT_EQ(body_of(0, "/readyz").substr(0, 5), "ready");
  EXPECT_FALSE(nlohmann::json::parse(body_of(0, "/status.json"), nullptr, false).is_discarded());
}

} // namespace peercache::real
