#include "actors/monitoring/node_history.hpp"

#include "common/assert.hpp"
#include "link/protocol/pool_wire.hpp"
#include "metrics/metric_table.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace peercache::actors {

using metrics::metric;

namespace {

/// The sides of hand-overs, in the order of a point's figures.
constexpr std::array<std::string_view, 2> handoff_sides{"prefill", "decode"};

/// What a counter counted between two moments; all of it when the counter began anew.
std::uint64_t grown(const metrics::samples& from, const metrics::samples& to, metric id,
                    metrics::label_words words = {}) {
  const auto before = from.count(id, words), after = to.count(id, words);
  return after >= before ? after - before : after;
}

std::uint64_t bytes_grown(const metrics::samples& from, const metrics::samples& to,
                          std::string_view op) {
  std::uint64_t sum = 0;
  for (const auto source : page_source_words)
    sum += grown(from, to, metric::bytes_total, {op, source});
  return sum;
}

/// The quantiles of the calls between two moments.
std::array<std::uint64_t, 3> quantiles_between(const metrics::samples& from,
                                               const metrics::samples& to, std::string_view op) {
  const auto before = from.latency(metric::op_seconds, {op});
  auto calls = to.latency(metric::op_seconds, {op});
  if (before.count <= calls.count && before.bucket_counts.size() == calls.bucket_counts.size()) {
    for (std::size_t i = 0; i < calls.bucket_counts.size(); ++i)
      calls.bucket_counts[i] -= std::min(calls.bucket_counts[i], before.bucket_counts[i]);
    calls.count -= before.count;
  }
  if (calls.count == 0)
    return {};
  return {calls.quantile_ns(0.5), calls.quantile_ns(0.9), calls.quantile_ns(0.99)};
}

history_point point_between(const metrics::samples& from, const metrics::samples& to) {
  history_point made;
  for (std::size_t i = 0; i < made.hits.size(); ++i)
    made.hits[i] = grown(from, to, metric::hits_total, {page_source_words[i]});
  for (std::size_t i = 0; i < made.misses.size(); ++i)
    if (const auto status = static_cast<page_status>(i);
        status != page_status::pending && !is_success(status))
      made.misses[i] = grown(from, to, metric::misses_total, {to_string(status)});
  made.get_bytes = bytes_grown(from, to, "get");
  made.set_bytes = bytes_grown(from, to, "set");
  made.sent_bytes = grown(from, to, metric::data_bytes_sent_total);
  made.evictions = grown(from, to, metric::evictions_total);
  made.disk_evictions = grown(from, to, metric::disk_evictions_total);
  made.pool_bytes = to.count(metric::pool_bytes_used);
  made.disk_queue_bytes = to.count(metric::disk_queue_bytes);
  for (std::size_t i = 0; i < handoff_sides.size(); ++i) {
    const auto side = handoff_sides[i];
    made.rooms_handed_over[i] = grown(from, to, metric::handoff_rooms_total, {side, "succeeded"});
    made.bytes_handed_over[i] = grown(from, to, metric::handoff_bytes_total, {side});
  }
  made.get_ns = quantiles_between(from, to, "get");
  made.set_ns = quantiles_between(from, to, "set");
  return made;
}

} // namespace

void node_history::take(const metrics::samples& now, time_point at, std::uint64_t unix_ms) {
  PEERCACHE_ASSERT(due(unix_ms));
  if (begin_) {
    auto point = point_between(*begin_, now);
    point.number = ++numbers_;
    point.unix_ms = unix_ms;
    point.span_ms = static_cast<std::uint64_t>((at - began_) / std::chrono::milliseconds(1));
    points_.push_back(point);
    if (points_.size() > history_points_max)
      points_.pop_front();
  }
  begin_ = now;
  began_ = at;
  step_ = unix_ms / history_step_ms;
}

history_report remembered_after(const node_memory& memory, std::uint64_t after_point,
                                std::uint64_t after_event) {
  history_report said;
  for (const auto& point : memory.points)
    if (point.number > after_point)
      append_record(said.points, point);
  for (const auto& event : memory.events)
    if (event.number > after_event)
      said.events.push_back(event);
  return said;
}

} // namespace peercache::actors
