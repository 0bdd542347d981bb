#include "metrics/samples.hpp"

#include "common/assert.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace peercache::metrics {

namespace {

bool may_be(const label_info& label, std::string_view word) {
  return label.words.empty() || std::ranges::find(label.words, word) != label.words.end();
}

/// The nearest whole number of 64 bits; a value from another process may be larger than all such
/// numbers.
std::uint64_t rounded(double value) {
  constexpr double beyond = 0x1p64;
  const auto whole = std::max(0.0, std::round(value));
  return whole < beyond ? static_cast<std::uint64_t>(whole)
                        : std::numeric_limits<std::uint64_t>::max();
}

/// Whether the metric's value is a point in time (seconds since 1970); points in time cannot be
/// added up.
bool is_moment(metric id) noexcept {
  return id == metric::handoff_last_failure_seconds;
}

} // namespace

series series_of(metric id, label_words words) {
  const metric_info& info = info_of(id);
  PEERCACHE_ASSERT(words.size() == info.labels.size());
  series which{id, {}};
  std::ranges::transform(words, which.words.begin(),
                         [](auto word) { return word.substr(0, word_bytes_max); });
  PEERCACHE_ASSERT(may_have(info, which));
  return which;
}

bool may_have(const metric_info& info, const series& which) noexcept {
  for (std::size_t i = 0; i < info.labels.size(); ++i)
    if (which.words[i].size() > word_bytes_max || !may_be(info.labels[i], which.words[i]))
      return false;
  return true;
}

template <class Value>
Value* samples::room(std::map<series, Value>& all, const series& which) {
  const auto found = all.find(which);
  if (found != all.end())
    return &found->second;
  return size() < series_max ? &all[which] : nullptr;
}

double& samples::put(label_words words, metric id) {
  PEERCACHE_ASSERT(info_of(id).type != metric_type::histogram);
  auto* there = room(values_, series_of(id, words));
  return there != nullptr ? *there : left_out_;
}

void samples::set(metric id, label_words words, latency_snapshot now) {
  set(series_of(id, words), std::move(now));
}

void samples::set(const series& which, double now) {
  PEERCACHE_ASSERT(info_of(which.id).type != metric_type::histogram);
  if (auto* there = room(values_, which))
    *there = now;
}

void samples::set(const series& which, latency_snapshot now) {
  PEERCACHE_ASSERT(info_of(which.id).type == metric_type::histogram);
  if (auto* there = room(latencies_, which))
    *there = std::move(now);
}

void samples::take(const samples& newer) {
  for (const auto& [which, value] : newer.values_)
    set(which, value);
  for (const auto& [which, latency] : newer.latencies_)
    set(which, latency);
}

void samples::add(const samples& more) {
  for (const auto& [which, value] : more.values_)
    if (auto* there = room(values_, which))
      *there = is_moment(which.id) ? std::max(*there, value) : *there + value;
  for (const auto& [which, latency] : more.latencies_)
    if (auto* there = room(latencies_, which))
      there->merge(latency);
}

void samples::zero_gauges() {
  for (auto& [which, value] : values_)
    if (info_of(which.id).type == metric_type::gauge)
      value = 0;
}

bool samples::has(metric id) const {
  return values_.contains(series_of(id, {}));
}

double samples::value(metric id, label_words words) const {
  const auto found = values_.find(series_of(id, words));
  return found == values_.end() ? 0 : found->second;
}

std::uint64_t samples::count(metric id, label_words words) const {
  return rounded(value(id, words));
}

std::uint64_t samples::milliseconds(metric id) const {
  return rounded(value(id) * 1000);
}

latency_snapshot samples::latency(metric id, label_words words) const {
  const auto found = latencies_.find(series_of(id, words));
  return found == latencies_.end() ? latency_snapshot{} : found->second;
}

} // namespace peercache::metrics
