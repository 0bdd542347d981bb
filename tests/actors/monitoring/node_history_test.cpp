// Tests of what a node remembers of its last hour, and of what other nodes learn of that.

#include "actors/monitoring/cluster_history.hpp"
#include "actors/monitoring/event_log.hpp"
#include "actors/monitoring/history_json.hpp"
#include "actors/monitoring/http_board.hpp"
#include "actors/monitoring/key_search.hpp"
#include "actors/monitoring/node_history.hpp"
#include "common/fault_ids.hpp"
#include "directory/wire.hpp"
#include "metrics/latency_histogram.hpp"
#include "tests/link/named_members.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace peercache::actors::node_history_test {
namespace {

using metrics::metric;
using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::uint64_t today = 1'800'000'000'000;
constexpr cluster_history::time_point morning{1h};

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

TEST(node_history, a_step_has_what_was_handed_over_within_it) {
  const auto now = [](std::uint64_t rooms, std::uint64_t bytes) {
    metrics::samples all;
    all.set(metric::handoff_rooms_total, {"decode", "succeeded"}, rooms);
    all.set(metric::handoff_rooms_total, {"decode", "failed"}, 7 * rooms);
    all.set(metric::handoff_bytes_total, {"decode"}, bytes);
    return all;
  };
  node_history history;
  history.take(now(5, 1000), morning, today);
  history.take(now(8, 5000), morning + 10s, today + history_step_ms);
  EXPECT_THAT(history.points().front().rooms_handed_over, ElementsAre(0, 3));
  EXPECT_THAT(history.points().front().bytes_handed_over, ElementsAre(0, 4000));
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

/// Returns these members sorted by id, as in a view.
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

TEST(event_log, a_late_report_ends_no_incident_and_two_in_a_row_are_one) {
  event_log log("a");
  node_report report;
  report.samples.set(metric::ready, 1);
  report.disk.faults.emplace_back("disk-slow", "slow", "");
  log.take(report, today);
  auto late = report;
  late.disk.faults.clear();
  late.silent = {link::node_parts::disk};
  for (int i = 0; i < 3; ++i) {
    log.take(late, today);
    log.take(report, today);
  }
  EXPECT_THAT(told(log), ElementsAre("disk-slow a"));
  log.take(late, today);
  log.take(late, today);
  EXPECT_THAT(told(log), ElementsAre("disk-slow a", "status-incomplete a"));
  report.disk.faults.clear();
  log.take(report, today);
  EXPECT_THAT(told(log), ElementsAre("disk-slow a", "status-incomplete a", "over disk-slow a",
                                     "over status-incomplete a"));
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

class cluster_history_test : public testing::Test {
protected:
  static std::string packed(std::initializer_list<history_point> points) {
    node_memory memory;
    memory.points = points;
    return remembered_after(memory, 0, 0).points;
  }
  static history_point point(std::uint64_t number, std::uint64_t step, std::uint64_t bytes) {
    history_point made;
    made.number = number;
    made.unix_ms = step * history_step_ms;
    made.get_bytes = bytes;
    made.get_ns = {bytes, 0, 0};
    return made;
  }

  const discovery::member a = member_named("a", 1), b = member_named("b", 2);
  cluster_history history;
};

TEST_F(cluster_history_test, each_node_is_asked_for_what_is_new) {
  history.take({a, b}, a.inc);
  EXPECT_EQ(history.due(morning).size(), 2u);
  EXPECT_THAT(history.due(morning + 1min), IsEmpty()) << "answers are awaited";
  history_report said;
  said.points = packed({point(7, 1, 1), point(8, 2, 1)});
  said.events.emplace_back(today, fault_ids::disk_full, "b", "full");
  said.events.back().number = 5;
  history.answered(b.inc, said);
  history.failed(a.inc);
  const auto again = history.due(morning + 1min);
  ASSERT_EQ(again.size(), 2u);
  EXPECT_EQ(again[0].after_point, 0u);
  EXPECT_EQ(again[1].after_point, 8u);
  EXPECT_EQ(again[1].after_event, 5u);
}

TEST_F(cluster_history_test, the_sum_adds_steps_of_the_same_time_and_keeps_the_longest_latency) {
  history.take({a, b}, a.inc);
  history_report said;
  said.points = packed({point(1, 100, 10), point(2, 101, 20)});
  history.answered(a.inc, said);
  said.points = packed({point(9, 101, 5)});
  history.answered(b.inc, said);
  const auto memory = history.memory(a.inc);
  const auto sum = sum_of(memory, 101 * history_step_ms);
  ASSERT_EQ(sum.size(), 2u);
  EXPECT_EQ(sum[0].get_bytes, 10u);
  EXPECT_EQ(sum[1].get_bytes, 25u);
  EXPECT_EQ(sum[1].get_ns[0], 20u);
  const auto json = nlohmann::json::parse(history_json("", sum, memory));
  EXPECT_EQ(json["get_bytes"], nlohmann::json({10, 25}));
  EXPECT_TRUE(json["misses"].empty()) << "no reason occurred";
}

TEST_F(cluster_history_test, the_sum_has_no_step_of_which_a_node_has_yet_to_tell) {
  history.take({a, b}, a.inc);
  history_report said;
  said.points = packed({point(1, 100, 10), point(2, 101, 20)});
  history.answered(a.inc, said);
  said.points = packed({point(9, 100, 5)});
  history.answered(b.inc, said);
  const auto bytes = [&](std::uint64_t step) {
    std::vector<std::uint64_t> all;
    for (const auto& each : sum_of(history.memory(a.inc), step * history_step_ms))
      all.push_back(each.get_bytes);
    return all;
  };
  EXPECT_THAT(bytes(101), ElementsAre(15));
  EXPECT_THAT(bytes(104), ElementsAre(15, 20)) << "b's clock must be behind: nobody waits for it";
  EXPECT_THAT(bytes(99), IsEmpty()) << "both clocks are ahead";
  history.failed(b.inc);
  EXPECT_THAT(bytes(101), ElementsAre(15, 20)) << "b does not answer";
  said.points = packed({point(10, 101, 7), point(11, 102, 9)});
  history.answered(b.inc, said);
  EXPECT_THAT(bytes(101), ElementsAre(15, 27)) << "b's clock is ahead";
}

TEST_F(cluster_history_test, a_sum_waits_until_each_node_was_asked) {
  http_board board;
  const auto status = [&](const metrics::http_parameters& query) {
    board.history.store(history.memory(a.inc));
    return answer_api(board, "history", query, morning, today).status;
  };
  EXPECT_EQ(status({}), 202);
  history.take({a, b}, a.inc);
  history.answered(a.inc, {});
  EXPECT_EQ(status({}), 202);
  EXPECT_EQ(status({{"node", "a"}}), 200);
  EXPECT_EQ(status({{"node", "b"}}), 202);
  EXPECT_EQ(answer_api(board, "events", {}, morning, today).status, 200);
  history.failed(b.inc);
  EXPECT_EQ(status({}), 200);
  EXPECT_EQ(status({{"node", "b"}}), 404);
}

TEST_F(cluster_history_test, what_is_told_twice_counts_once) {
  history.take({a}, a.inc);
  history_report said;
  said.points = packed({point(1, 100, 10), point(2, 101, 20)});
  said.events.emplace_back(today, fault_ids::disk_slow, "a", "slow");
  said.events.back().number = 3;
  history.answered(a.inc, said);
  history.answered(a.inc, said);
  EXPECT_EQ(history.memory(a.inc).points.at("a").size(), 2u);
  EXPECT_EQ(history.memory(a.inc).events.size(), 1u);
}

TEST_F(cluster_history_test, joins_are_told_once_and_incidents_of_all_nodes) {
  history.take({a, b}, a.inc);
  history_report said;
  said.events.emplace_back(today, "joined", "c", "").number = 1;
  history.answered(a.inc, said);
  said.events.emplace_back(today + 1, fault_ids::disk_slow, "b", "slow").number = 2;
  history.answered(b.inc, said);
  const auto memory = history.memory(a.inc);
  ASSERT_EQ(memory.events.size(), 2u);
  EXPECT_EQ(memory.events[0].kind, fault_ids::disk_slow);
  EXPECT_EQ(memory.events[1].kind, "joined");
}

TEST_F(cluster_history_test, garbage_and_too_much_cost_nothing) {
  history.take({a}, a.inc);
  history_report said;
  said.points = std::string(7, 'x');
  said.events.resize(3 * events_max);
  history.answered(a.inc, said);
  history.answered(b.inc, said);
  const auto memory = history.memory(a.inc);
  EXPECT_TRUE(memory.points.at("a").empty());
  EXPECT_LE(memory.events.size(), events_max);
  std::vector<discovery::member> many;
  for (std::uint64_t i = 1; i < 200; ++i)
    many.push_back(member_named("n" + std::to_string(i), i));
  history.take(many, many.back().inc);
  for (const auto& member : many)
    history.answered(member.inc, {});
  const auto limited = history.memory(many.back().inc);
  EXPECT_EQ(limited.points.size(), cluster_history::nodes_max);
  EXPECT_TRUE(limited.points.contains("n199")) << "this node is always among them";
  const auto json = nlohmann::json::parse(history_json("", {}, limited));
  EXPECT_EQ(json["nodes"].size(), cluster_history::nodes_max);
  EXPECT_EQ(json["cluster_nodes"], 199) << "the sum is not of all of them";
}

TEST(key_search, it_says_who_knows_the_page_and_whether_a_get_may_hit) {
  const auto a = member_named("a", 1);
  const auto key = key_space{}.key_of("greeting");
  discovery::view view;
  view.members = {a};
  directory::page_location location;
  location.node = a.id;
  location.holder = a.inc;
  location.length_bytes = 4096;
  std::string answer;
  directory::append_answer(answer, {&location, 1});
  key_search search(key, 2);
  search.answered("a", answer);
  EXPECT_FALSE(search.complete());
  search.failed("b", "no connection to it");
  ASSERT_TRUE(search.complete());
  const auto said = nlohmann::json::parse(key_json(search, view));
  EXPECT_EQ(said["locations"][0]["node"], "a");
  EXPECT_EQ(said["locations"][0]["holder_in_view"], true);
  EXPECT_EQ(said["owners"][1]["fault"], "no connection to it");
  EXPECT_NE(said["verdict"].get<std::string>().find("should be a hit"), std::string::npos);
  view.members.front().inc = {9, 9};
  EXPECT_NE(key_json(search, view).find("is gone"), std::string::npos);
}

TEST(key_search, a_key_is_not_unknown_while_an_owner_is_silent_or_owns_it_no_more) {
  std::string nothing, elsewhere;
  directory::append_answer(nothing, {});
  directory::append_not_mine(elsewhere, {});
  const auto verdict = [](const key_search& search) {
    return nlohmann::json::parse(key_json(search, {}))["verdict"].get<std::string>();
  };
  key_search known(page_key{}, 2), half(page_key{}, 2), moved(page_key{}, 2);
  known.answered("a", nothing);
  known.answered("b", nothing);
  EXPECT_THAT(verdict(known), testing::StartsWith("a get is a miss"));
  half.answered("a", nothing);
  half.failed("b", "no connection to it");
  EXPECT_EQ(verdict(half), "not known: 1 of 2 owners did not answer");
  moved.answered("a", nothing);
  moved.answered("b", elsewhere);
  EXPECT_THAT(verdict(moved), testing::StartsWith("not known: by the view of 1 of 2 owners"));
}

TEST(key_search, a_malformed_answer_is_no_location) {
  key_search search(page_key{}, 1);
  search.answered("a", "\x03zzz");
  ASSERT_TRUE(search.complete());
  EXPECT_TRUE(search.owners().front().locations.empty());
  EXPECT_FALSE(search.owners().front().fault.empty());
}

TEST(http_board_keys, a_key_is_asked_for_once_and_answered_while_the_answer_is_new) {
  http_board board;
  std::vector<std::string> asked;
  board.ask_for_key = [&](const page_key& key) { asked.push_back(to_string(key)); };
  const metrics::http_parameters query{{"key", "greeting"}, {"namespace", "m"}};
  EXPECT_EQ(answer_api(board, "key", query, morning).status, 202);
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0], to_string(key_space(std::vector<std::string_view>{"m"}).key_of("greeting")));
  board.keys.store({{asked[0], dated_text{"{}", morning}}});
  EXPECT_EQ(answer_api(board, "key", query, morning).json, "{}");
  EXPECT_EQ(answer_api(board, "key", query, morning + 1min).status, 202);
  EXPECT_EQ(answer_api(board, "key", {}, morning).status, 400);
  EXPECT_EQ(answer_api(board, "key", {{"digest", "zz"}}, morning).status, 400);
}

} // namespace
} // namespace peercache::actors::node_history_test
