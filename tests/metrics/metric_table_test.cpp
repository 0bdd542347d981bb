#include "metrics/metric_table.hpp"

#include <cctype>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <set>

namespace peercache::metrics {
namespace {

TEST(metric_table, the_document_is_what_the_table_says) {
  std::ifstream file{PEERCACHE_SOURCE_DIR "/docs/metrics.md", std::ios::binary};
  ASSERT_TRUE(file) << "docs/metrics.md is missing";
  const std::string text{std::istreambuf_iterator<char>{file}, {}};
  EXPECT_EQ(text, metrics_document())
      << "run: build/release/metrics/peercache_metrics_docs docs/metrics.md";
}

TEST(metric_table, names_follow_the_rules_of_prometheus) {
  std::set<std::string_view> seen;
  for (const metric_info& info : metric_table()) {
    SCOPED_TRACE(info.name);
    EXPECT_TRUE(info.name.starts_with("peercache_"));
    EXPECT_TRUE(seen.insert(info.name).second) << "twice";
    EXPECT_EQ(info.name.ends_with("_total"), info.type == metric_type::counter);
    for (const char c : info.name)
      EXPECT_TRUE(std::islower(static_cast<unsigned char>(c)) || c == '_') << c;
  }
}

TEST(metric_table, every_meaning_is_one_sentence) {
  for (const metric_info& info : metric_table()) {
    SCOPED_TRACE(info.name);
    EXPECT_GT(info.help.size(), 20u);
    EXPECT_TRUE(info.help.ends_with('.'));
    EXPECT_EQ(info.help.find(". "), std::string_view::npos);
    EXPECT_EQ(info.help.find('|'), std::string_view::npos) << "breaks the document's table";
  }
}

TEST(metric_table, histogram_bounds_only_grow) {
  std::uint64_t last = 0;
  for (const std::uint64_t bound : histogram_bounds_ns()) {
    EXPECT_GT(bound, last);
    last = bound;
  }
}

} // namespace
} // namespace peercache::metrics
