#pragma once

#include "metrics/samples.hpp"

#include <prometheus/metric_family.h>

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::metrics {

/// The current value of every metric of the table, and its text for a scrape.
///
/// The registry is fed with totals that others count; it counts nothing itself.
/// Threads: none; the owner (the metrics actor) serializes all calls.
/// Time and I/O: none.
/// Errors: a metric with too few, too many or unknown label words is a fault of ours and asserts.
/// Invariants:
/// 1. Every metric of the table is in every scrape; one whose labels have known words, at most
/// `preset_series_max` combinations, starts with each of them at 0.
/// 2. A counter never goes down: a lower total is a late message and is ignored.
/// 3. A metric has at most `series_max` series; further ones are refused and counted.
class registry {
public:
  using label_words = metrics::label_words;

  static constexpr std::size_t series_max = 4096;
  static constexpr std::size_t preset_series_max = 32;

  registry();

  /// Sets the value of a metric without labels. @pre the metric is a gauge or a counter
  void set(metric id, double value) { set(id, {}, value); }

  /// Sets the value of one series of a metric.
  /// @param words one word for each label, in the table's order
  /// @pre the metric is a gauge or a counter
  void set(metric id, label_words words, double value);

  /// Adds `delta` to a counter, for sources that report differences instead of totals.
  /// @pre the metric is a counter, delta >= 0
  void add(metric id, label_words words, double delta);

  /// Replaces the counts of one series of a histogram by `total`. @pre the metric is a histogram
  void set_histogram(metric id, label_words words, const latency_snapshot& total);

  /// Removes the series with these label words, such as those of a peer that left the view.
  void remove(metric id, label_words words);

  /// The current value of one series; 0 for a series that was never set.
  double value(metric id, label_words words = {}) const;

  /// All families in the form that prometheus-cpp serializes: one for each row of the metric table,
  /// in its order, with the series sorted by their label words.
  std::vector<prometheus::MetricFamily> families() const;

  /// All families in Prometheus' text format, version 0.0.4.
  std::string text() const;

private:
  using series_key = std::array<std::string, labels_per_metric_max>;

  struct family {
    std::map<series_key, double> values;
    std::map<series_key, latency_snapshot> histograms;
  };

  static series_key key_of(metric id, label_words words);
  void preset(const metric_info& info);
  /// The value under `key`, added when it is not there; null when that would exceed `series_max`.
  template <class Value>
  Value* series(std::map<series_key, Value>& all, const series_key& key);
  prometheus::MetricFamily to_prometheus(const metric_info& info) const;

  std::array<family, metric_count> families_;
};

} // namespace peercache::metrics
