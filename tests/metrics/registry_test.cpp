#include "metrics/registry.hpp"

#include <gtest/gtest.h>
#include <sstream>

namespace peercache::metrics {
namespace {

bool has_line(const std::string& text, const std::string& wanted) {
  std::istringstream lines{text};
  for (std::string line; std::getline(lines, line);)
    if (line == wanted)
      return true;
  return false;
}

TEST(registry, every_metric_of_the_table_is_in_a_scrape_with_its_help_and_type) {
  const std::string text = registry{}.text();
  for (const metric_info& info : metric_table()) {
    const std::string name{info.name};
    EXPECT_TRUE(has_line(text, "# HELP " + name + " " + std::string{info.help})) << name;
    EXPECT_TRUE(has_line(text, "# TYPE " + name + " " + std::string{to_string(info.type)})) << name;
  }
}

TEST(registry, a_scrape_has_no_metric_outside_the_table) {
  std::istringstream lines{registry{}.text()};
  std::size_t types = 0;
  for (std::string line; std::getline(lines, line);)
    types += line.starts_with("# TYPE ");
  EXPECT_EQ(types, metric_count);
}

TEST(registry, series_with_known_words_start_at_zero) {
  const std::string text = registry{}.text();
  EXPECT_TRUE(has_line(text, "peercache_pool_pages 0"));
  EXPECT_TRUE(has_line(text, R"(peercache_requests_total{op="get"} 0)"));
  EXPECT_TRUE(has_line(text, R"(peercache_misses_total{reason="stale"} 0)"));
  EXPECT_TRUE(has_line(text, R"(peercache_bytes_total{op="set",source="own_host"} 0)"));
  EXPECT_TRUE(has_line(text, R"(peercache_op_seconds_count{op="exists"} 0)"));
}

/// Returns samples with one value.
samples one(metric id, label_words words, double value) {
  samples made;
  made.set(id, words, value);
  return made;
}

TEST(registry, a_gauge_follows_and_a_counter_never_goes_down) {
  registry values;
  for (const double now : {7, 3}) {
    values.take(one(metric::pool_pages, {}, now));
    values.take(one(metric::evictions_total, {}, now));
  }
  EXPECT_TRUE(has_line(values.text(), "peercache_pool_pages 3"));
  EXPECT_TRUE(has_line(values.text(), "peercache_evictions_total 7"));
}

TEST(registry, a_histogram_that_counted_less_is_a_late_message) {
  latency_histogram latency;
  latency.record_ns(1000);
  samples late, now;
  late.set(metric::op_seconds, {"get"}, latency.snapshot());
  latency.record_ns(1000);
  now.set(metric::op_seconds, {"get"}, latency.snapshot());
  registry values;
  values.take(now);
  values.take(late);
  EXPECT_TRUE(has_line(values.text(), R"(peercache_op_seconds_count{op="get"} 2)"));
}

TEST(registry, what_samples_do_not_have_stays_as_it_is) {
  registry values;
  values.take(one(metric::pool_pages, {}, 7));
  values.take(samples{});
  EXPECT_EQ(values.value(metric::pool_pages), 7);
}

TEST(registry, label_words_are_escaped) {
  registry values;
  values.take(one(metric::build_info, {"a\"b\\c\nd"}, 1));
  EXPECT_TRUE(has_line(values.text(), R"(peercache_build_info{version="a\"b\\c\nd"} 1)"));
}

TEST(registry, more_series_than_the_limit_are_refused_and_counted) {
  registry values;
  for (std::size_t i = 0; i < registry::series_max + 3; ++i)
    values.take(one(metric::build_info, {"peer-" + std::to_string(i)}, 1));
  EXPECT_EQ(values.value(metric::series_refused_total), 3);
  EXPECT_EQ(values.families()[static_cast<std::size_t>(metric::build_info)].metric.size(),
            registry::series_max);
}

TEST(registry, a_histogram_is_cumulative_and_ends_with_all_samples) {
  latency_histogram latency;
  for (const std::uint64_t ns : {1'000u, 1'024u, 1'025u, 2'000'000u})
    latency.record_ns(ns);
  samples now;
  now.set(metric::op_seconds, {"get"}, latency.snapshot());
  registry values;
  values.take(now);
  const std::string text = values.text();
  EXPECT_TRUE(has_line(text, R"(peercache_op_seconds_bucket{op="get",le="1.024e-06"} 2)")) << text;
  EXPECT_TRUE(has_line(text, R"(peercache_op_seconds_bucket{op="get",le="2.048e-06"} 3)"));
  EXPECT_TRUE(has_line(text, R"(peercache_op_seconds_bucket{op="get",le="+Inf"} 4)"));
  EXPECT_TRUE(has_line(text, R"(peercache_op_seconds_count{op="get"} 4)"));
  EXPECT_TRUE(has_line(text, R"(peercache_op_seconds_sum{op="get"} 0.002003049)"));
}

} // namespace
} // namespace peercache::metrics
