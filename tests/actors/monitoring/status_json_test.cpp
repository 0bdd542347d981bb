#include "actors/monitoring/status_json.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace peercache::actors::status_json_test {
namespace {

using metrics::metric;

TEST(status_json, says_null_for_what_no_actor_told) {
  node_report report;
  report.samples.set(metric::pool_pages, 0);
  report.samples.set(metric::is_leader, false);
  report.silent = {"directory"};
  const auto said = nlohmann::json::parse(status_json(report));
  EXPECT_EQ(said["pool_pages"], 0);
  EXPECT_EQ(said["leader"], false);
  EXPECT_TRUE(said["directory_records"].is_null());
  EXPECT_EQ(said["silent"], nlohmann::json({"directory"}));
}

TEST(status_json, replaces_bytes_that_are_no_text) {
  node_report report;
  report.unready_reason = "\xff\"";
  const auto said = nlohmann::json::parse(status_json(report));
  EXPECT_EQ(said["unready_reason"], "\xef\xbf\xbd\"");
}

} // namespace
} // namespace peercache::actors::status_json_test
