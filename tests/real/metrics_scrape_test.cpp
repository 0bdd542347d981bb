#include "clear_cluster.hpp"
#include "local_ring.hpp"

#include "metrics/metric_table.hpp"

#include <httplib.h>

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

} // namespace

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
  EXPECT_EQ(scraped, metrics::metric_table().size());
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
           value_of(1, R"(peercache_pages_total{op="set",result="stored"})") == 8 &&
           value_of(1, "peercache_pool_pages") == 8 &&
           value_of(1, "peercache_data_pages_sent_total") == 8 &&
           value_of(1, "peercache_members") == 3;
  }));
  EXPECT_GT(value_of(0, R"(peercache_op_seconds_count{op="get"})").value_or(0), 8);
}

TEST_F(metrics_scrape, health_and_readiness_are_two_things) {
  EXPECT_EQ(body_of(0, "/healthz").substr(0, 2), "ok");
  EXPECT_EQ(body_of(0, "/readyz").substr(0, 5), "ready");
  EXPECT_FALSE(nlohmann::json::parse(body_of(0, "/status.json"), nullptr, false).is_discarded());
}

} // namespace peercache::real
