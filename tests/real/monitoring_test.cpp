// Tests that the dashboards and alerts in config/monitoring use only metrics that nodes really
// serve.

#include "local_ring.hpp"

#include <fstream>
#include <httplib.h>
#include <iterator>
#include <regex>
#include <set>
#include <string>

namespace peercache::real::monitoring_test {
namespace {

using names = std::set<std::string>;

class monitoring : public local_ring {
protected:
  std::string scrape() {
    httplib::Client http{"127.0.0.1", node(0).ports().http_port};
    const auto answer = http.Get("/metrics");
    return answer ? answer->body : "";
  }
};

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Returns all metrics that a text names, without the suffixes of a histogram's series.
names metrics_in(const std::string& text) {
  static const std::regex metric(R"(peercache_[a-z0-9_]+)");
  static const std::regex suffix("_(bucket|sum|count)$");
  names found;
  for (std::sregex_iterator at(text.begin(), text.end(), metric), end; at != end; ++at)
    found.insert(std::regex_replace(at->str(), suffix, ""));
  return found;
}

names served_in(const std::string& scrape) {
  names served;
  for (auto at = scrape.find("# TYPE "); at != std::string::npos; at = scrape.find("# TYPE ", at)) {
    at += 7;
    served.insert(scrape.substr(at, scrape.find(' ', at) - at));
  }
  return served;
}

} // namespace

TEST_F(monitoring, every_metric_that_rules_and_dashboard_name_is_in_a_live_scrape) {
  const auto served = served_in(scrape());
  for (const char* file : {"alerts.yaml", "recording.yaml", "grafana-dashboard.json"}) {
    const auto named =
        metrics_in(text_of(std::string(PEERCACHE_SOURCE_DIR "/config/monitoring/") + file));
    EXPECT_GT(named.size(), 5u) << file;
    for (const auto& name : named)
      EXPECT_TRUE(served.contains(name)) << file << " names " << name;
  }
}

TEST_F(monitoring, promtool_finds_nothing_wrong_in_a_live_scrape) {
  const auto client = client_of(0);
  put(*client, 0, 1);
  get(*client, 0);
  const auto file = (folder_->path() / "scrape").string();
  std::ofstream(file) << scrape();
  const auto checked = run_program({"/bin/sh", "-c", "promtool check metrics <\"$0\" 2>&1", file});
  EXPECT_EQ(checked.exit_code, 0) << checked.output;
  EXPECT_EQ(checked.output, "");
}

} // namespace peercache::real::monitoring_test
