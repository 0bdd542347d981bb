#include "metrics/registry.hpp"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <limits>

namespace peercache::metrics {

namespace {

prometheus::MetricType to_prometheus_type(metric_type type) {
  switch (type) {
  case metric_type::counter:
    return prometheus::MetricType::Counter;
  case metric_type::gauge:
    return prometheus::MetricType::Gauge;
  case metric_type::histogram:
    return prometheus::MetricType::Histogram;
  }
  return prometheus::MetricType::Untyped;
}

double seconds(std::uint64_t ns) {
  return static_cast<double>(ns) / 1e9;
}

prometheus::ClientMetric::Histogram to_prometheus_histogram(const latency_snapshot& total) {
  prometheus::ClientMetric::Histogram out;
  out.sample_count = total.count;
  out.sample_sum = seconds(total.sum_ns);
  for (const std::uint64_t bound : histogram_bounds_ns())
    out.bucket.push_back({total.count_at_most(bound), seconds(bound)});
  out.bucket.push_back({total.count, std::numeric_limits<double>::infinity()});
  return out;
}

} // namespace

registry::registry() {
  for (const metric_info& info : metric_table())
    preset(info);
}

void registry::preset(const metric_info& info) {
  std::size_t combinations = 1;
  for (const label_info& label : info.labels)
    combinations *= label.words.size();
  if (combinations == 0 || combinations > preset_series_max)
    return;
  family& fam = families_[static_cast<std::size_t>(info.id)];
  for (std::size_t n = 0; n < combinations; ++n) {
    series_key key;
    std::size_t rest = n;
    for (std::size_t i = 0; i < info.labels.size(); ++i) {
      key[i] = info.labels[i].words[rest % info.labels[i].words.size()];
      rest /= info.labels[i].words.size();
    }
    if (info.type == metric_type::histogram)
      fam.histograms[key];
    else
      fam.values[key] = 0;
  }
}

template <class Value>
Value* registry::room(std::map<series_key, Value>& all, const series_key& key) {
  const auto found = all.find(key);
  if (found != all.end())
    return &found->second;
  if (all.size() < series_max)
    return &all[key];
  family_of(metric::series_refused_total).values[{}] += 1;
  return nullptr;
}

void registry::take(const samples& now) {
  const std::lock_guard lock(mutex_);
  for (const auto& [which, value] : now.values())
    if (auto* current = room(family_of(which.id).values, which.words))
      *current = info_of(which.id).type == metric_type::counter ? std::max(*current, value) : value;
  for (const auto& [which, total] : now.latencies()) {
    auto* current = room(family_of(which.id).histograms, which.words);
    if (current != nullptr && total.count >= current->count)
      *current = total;
  }
}

double registry::value(metric id, label_words words) const {
  const auto which = series_of(id, words);
  const std::lock_guard lock(mutex_);
  const auto& values = families_[static_cast<std::size_t>(id)].values;
  const auto found = values.find(which.words);
  return found == values.end() ? 0 : found->second;
}

prometheus::MetricFamily registry::to_prometheus(const metric_info& info) const {
  prometheus::MetricFamily out;
  out.name = info.name;
  out.help = info.help;
  out.type = to_prometheus_type(info.type);
  const auto labelled = [&](const series_key& key) {
    prometheus::ClientMetric series;
    for (std::size_t i = 0; i < info.labels.size(); ++i)
      series.label.push_back({std::string{info.labels[i].name}, key[i]});
    return series;
  };
  const family& fam = families_[static_cast<std::size_t>(info.id)];
  for (const auto& [key, value] : fam.values) {
    out.metric.push_back(labelled(key));
    out.metric.back().counter.value = value;
    out.metric.back().gauge.value = value;
  }
  for (const auto& [key, total] : fam.histograms) {
    out.metric.push_back(labelled(key));
    out.metric.back().histogram = to_prometheus_histogram(total);
  }
  return out;
}

std::vector<prometheus::MetricFamily> registry::families() const {
  std::vector<prometheus::MetricFamily> out;
  const std::lock_guard lock(mutex_);
  for (const metric_info& info : metric_table())
    out.push_back(to_prometheus(info));
  return out;
}

std::string registry::text(const std::vector<process_metric>& more) const {
  auto all = families();
  for (const auto& each : more) {
    auto& family = all.emplace_back();
    family.name = each.name;
    family.help = each.help;
    family.type = to_prometheus_type(each.type);
    auto& series = family.metric.emplace_back();
    series.counter.value = each.value;
    series.gauge.value = each.value;
  }
  return prometheus::TextSerializer{}.Serialize(all);
}

} // namespace peercache::metrics
