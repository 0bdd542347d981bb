#pragma once

#include "metrics/process_metrics.hpp"
#include "metrics/samples.hpp"

#include <prometheus/metric_family.h>

#include <array>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace peercache::metrics {

/// The current value of every metric of the table, and its text for a scrape.
///
/// The registry only keeps samples that other code has counted.
///
/// Threads: any; a lock is held while samples are taken over and while they are copied for a
/// scrape, whose text is made after that. Time and I/O: none.
///
/// Invariants:
/// 1. Every metric of the table is in every scrape; a metric whose labels have known words, at most
/// `preset_series_max` combinations, starts with each combination at 0.
/// 2. A counter never goes down: a lower total is a late message and is ignored.
/// 3. A metric has at most `series_max` series; further ones are refused and counted.
class registry {
public:
  static constexpr std::size_t series_max = 4096;
  static constexpr std::size_t preset_series_max = 32;

  registry();

  /// Takes over the values of `now`; series that `now` does not have stay as they are.
  void take(const samples& now);

  /// The current value of one series; 0 for a series that was never set.
  double value(metric id, label_words words = {}) const;

  /// All families in the form that prometheus-cpp serializes: one for each row of the metric table,
  /// in its order, with the series sorted by their label words.
  std::vector<prometheus::MetricFamily> families() const;

  /// All families in Prometheus' text format, version 0.0.4, and behind them `more`.
  std::string text(const std::vector<process_metric>& more = {}) const;

private:
  using series_key = decltype(series::words);

  struct family {
    std::map<series_key, double> values;
    std::map<series_key, latency_snapshot> histograms;
  };

  void preset(const metric_info& info);
  /// @pre mutex_ is locked
  family& family_of(metric id) { return families_[static_cast<std::size_t>(id)]; }
  /// The value under `key`, added when it is not there; null when the addition would exceed
  /// `series_max`, which counts as a refused series.
  /// @pre mutex_ is locked
  template <class Value>
  Value* room(std::map<series_key, Value>& all, const series_key& key);
  prometheus::MetricFamily to_prometheus(const metric_info& info) const;

  mutable std::mutex mutex_; ///< Guards `families_`.
  std::array<family, metric_count> families_;
};

} // namespace peercache::metrics
