// What a node remembers of its last hour, and what others learn of it.

#include "actors/event_log.hpp"
#include "actors/node_history.hpp"
#include "common/fault_ids.hpp"
#include "metrics/latency_histogram.hpp"
#include "tests/link/named_members.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

namespace peercache::actors::node_history_test {
namespace {

using metrics::metric;
using namespace std::chrono_literals;
using testing::ElementsAre;

constexpr node_history::time_point morning{1h};
constexpr std::uint64_t today = 1'800'000'000'000;

metrics::samples counted(std::uint64_t hits, std::uint64_t misses, std::uint64_t bytes) {
  metrics::samples now;
  now.set(metric::hits_total, {"own_host"}, hits);
  now.set(metric::misses_total, {"not_found"}, misses);
  now.set(metric::bytes_total, {"get", "own_host"}, bytes);
  return now;
}

TEST(node_history, a_step_has_what_was_counted_within_it) {
  node_history history;
  ASSERT_TRUE(history.due(today));
  history.take(counted(10, 1, 1000), morning, today);
  EXPECT_FALSE(history.due(today + history_step_ms - 1));
  ASSERT_TRUE(history.due(today + history_step_ms));
  history.take(counted(14, 3, 1500), morning + 10s, today + history_step_ms);
  ASSERT_EQ(history.points().size(), 1u);
  const auto& point = history.points().front();
  EXPECT_EQ(point.number, 1u);
  EXPECT_EQ(point.unix_ms, today + history_step_ms);
  EXPECT_EQ(point.span_ms, 10'000u);
  EXPECT_EQ(point.hits[0], 4u);
  EXPECT_EQ(point.misses[static_cast<std::size_t>(page_status::not_found)], 2u);
  EXPECT_EQ(point.get_bytes, 500u);
}

TEST(node_history, latencies_are_those_of_the_calls_of_the_step) {
  metrics::latency_histogram calls;
  const auto now = [&] {
    metrics::samples all;
    all.set(metric::op_seconds, {"get"}, calls.snapshot());
    return all;
  };
  node_history history;
  for (int i = 0; i < 1000; ++i)
    calls.record_ns(1 << 20);
  history.take(now(), morning, today);
  for (int i = 0; i < 100; ++i)
    calls.record_ns(1 << 10);
  history.take(now(), morning + 10s, today + history_step_ms);
  history.take(now(), morning + 20s, today + 2 * history_step_ms);
  EXPECT_THAT(history.points()[0].get_ns, ElementsAre(1024, 1024, 1024));
  EXPECT_THAT(history.points()[1].get_ns, ElementsAre(0, 0, 0)) << "no calls";
}

TEST(node_history, it_has_an_hour_at_most_and_others_get_what_they_lack) {
  node_memory memory;
  node_history history;
  for (std::uint64_t i = 0; i <= history_points_max + 5; ++i)
    history.take(counted(i, 0, 0), morning + i * 10s, today + i * history_step_ms);
  memory.points = history.points();
  EXPECT_EQ(memory.points.size(), history_points_max);
  EXPECT_EQ(remembered_after(memory, 0, 0).points.size(),
            history_points_max * sizeof(history_point));
  const auto newest = memory.points.back().number;
  EXPECT_EQ(remembered_after(memory, newest - 2, 0).points.size(), 2 * sizeof(history_point));
  EXPECT_TRUE(remembered_after(memory, newest, 0).points.empty());
}

/// Members in the order of a view.
std::vector<discovery::member> by_id(std::vector<discovery::member> members) {
  std::sort(members.begin(), members.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
  return members;
}

std::vector<std::string> told(const event_log& log) {
  std::vector<std::string> all;
  for (const auto& event : log.events())
    all.push_back((event.over ? "over " : "") + event.kind + " " + event.node);
  return all;
}

TEST(event_log, who_came_who_was_lost_and_who_was_stopped) {
  const auto a = member_named("a", 1), b = member_named("b", 2), c = member_named("c", 3);
  event_log log("a");
  discovery::view view;
  view.term = 1;
  view.members = by_id({a, b});
  log.take(view, today);
  log.take(view, today);
  EXPECT_THAT(told(log), ElementsAre("joined a")) << "b may be old";
  view.version = 2;
  view.members = by_id({a, b, c});
  log.take(view, today);
  view.version = 3;
  view.members = by_id({a, member_named("b", 9)});
  log.take(view, today);
  view.version = 4;
  view.members = {a};
  view.gone.push_back({"b", "10.0.0.2", 31998, today, discovery::departure::silent});
  log.take(view, today);
  EXPECT_THAT(told(log), ElementsAre("joined a", "joined c", "restarted b", "left c", "gone b"));
  EXPECT_NE(log.events().back().text.find("silent"), std::string::npos);
}

TEST(event_log, an_incident_begins_and_ends_once) {
  event_log log("a");
  node_report report;
  report.samples.set(metric::ready, 1);
  log.take(report, today);
  report.disk.faults.emplace_back(fault_ids::disk_full, "full", "");
  log.take(report, today);
  report.disk.faults.front().what = "full of pages";
  log.take(report, today);
  report.disk.faults.clear();
  log.take(report, today);
  EXPECT_THAT(told(log), ElementsAre("disk-full a", "over disk-full a"));
  for (std::size_t i = 0; i < 2 * events_max; ++i) {
    report.samples.set(metric::ready, i % 2);
    log.take(report, today);
  }
  EXPECT_EQ(log.events().size(), events_max);
}

} // namespace
} // namespace peercache::actors::node_history_test
