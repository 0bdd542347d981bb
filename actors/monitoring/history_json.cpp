#include "actors/monitoring/history_json.hpp"

#include "actors/link_names.hpp"
#include "actors/monitoring/overview_json.hpp"

#include <array>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

namespace peercache::actors {

namespace {

using nlohmann::json;

/// A column of the answer: one number of each point.
template <class Number>
json column(const std::deque<history_point>& points, Number number) {
  auto all = json::array();
  for (const auto& point : points)
    all.push_back(number(point));
  return all;
}

json column(const std::deque<history_point>& points, std::uint64_t history_point::*field) {
  return column(points, [field](const history_point& point) { return point.*field; });
}

json hit_columns(const std::deque<history_point>& points) {
  auto all = json::object();
  for (std::size_t i = 0; i < page_source_words.size(); ++i)
    all[std::string(page_source_words[i])] =
        column(points, [i](const history_point& point) { return point.hits[i]; });
  return all;
}

/// One column for each reason of misses that occurred.
json miss_columns(const std::deque<history_point>& points) {
  auto all = json::object();
  for (std::size_t i = 0; i < page_status_count; ++i) {
    bool occurred = false;
    for (const auto& point : points)
      occurred = occurred || point.misses[i] != 0;
    if (occurred)
      all[std::string(to_string(static_cast<page_status>(i)))] =
          column(points, [i](const history_point& point) { return point.misses[i]; });
  }
  return all;
}

/// The columns of prefill's and of decode's side.
json side_columns(const std::deque<history_point>& points,
                  std::array<std::uint64_t, 2> history_point::*field) {
  return {
      {"prefill", column(points, [field](const history_point& each) { return (each.*field)[0]; })},
      {"decode", column(points, [field](const history_point& each) { return (each.*field)[1]; })}};
}

json latency_columns(const std::deque<history_point>& points,
                     std::array<std::uint64_t, 3> history_point::*field) {
  auto all = json::object();
  constexpr std::array<const char*, 3> names{"p50", "p90", "p99"};
  for (std::size_t i = 0; i < names.size(); ++i)
    all[names[i]] =
        column(points, [field, i](const history_point& point) { return (point.*field)[i]; });
  return all;
}

} // namespace

std::string history_json(const std::string& node, const std::deque<history_point>& points,
                         const cluster_memory& memory) {
  auto names = json::array();
  for (const auto& [name, of_it] : memory.points)
    names.push_back(name);
  const json all{{"format", api_format},
                 {"node", node},
                 {"nodes", std::move(names)},
                 {"cluster_nodes", memory.members},
                 {"step_ms", history_step_ms},
                 {"unix_ms", column(points, &history_point::unix_ms)},
                 {"span_ms", column(points, &history_point::span_ms)},
                 {"hits", hit_columns(points)},
                 {"misses", miss_columns(points)},
                 {"get_bytes", column(points, &history_point::get_bytes)},
                 {"set_bytes", column(points, &history_point::set_bytes)},
                 {"sent_bytes", column(points, &history_point::sent_bytes)},
                 {"evictions", column(points, &history_point::evictions)},
                 {"disk_evictions", column(points, &history_point::disk_evictions)},
                 {"pool_bytes", column(points, &history_point::pool_bytes)},
                 {"disk_queue_bytes", column(points, &history_point::disk_queue_bytes)},
                 {"rooms_handed_over", side_columns(points, &history_point::rooms_handed_over)},
                 {"bytes_handed_over", side_columns(points, &history_point::bytes_handed_over)},
                 {"get_ns", latency_columns(points, &history_point::get_ns)},
                 {"set_ns", latency_columns(points, &history_point::set_ns)}};
  return all.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string events_json(const std::vector<node_event>& events) {
  auto list = json::array();
  for (const auto& event : events)
    list.push_back({{"unix_ms", event.unix_ms},
                    {"kind", event.kind},
                    {"node", event.node},
                    {"text", event.text},
                    {"over", event.over}});
  const json all{{"format", api_format}, {"events", std::move(list)}};
  return all.dump(-1, ' ', false, json::error_handler_t::replace);
}

} // namespace peercache::actors
