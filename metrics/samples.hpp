#pragma once

#include "metrics/latency_histogram.hpp"
#include "metrics/metric_table.hpp"

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>

namespace peercache::metrics {

/// One word for each label of a metric, in the order of `metric_info::labels`.
using label_words = std::initializer_list<std::string_view>;

/// Maximum length of a label's word in bytes.
inline constexpr std::size_t word_bytes_max = 255;

/// A metric and the words of its labels.
struct series {
  metric id{};
  /// One word for each label, in the order of `metric_info::labels`; empty beyond the last label.
  std::array<std::string, labels_per_metric_max> words;
  auto operator<=>(const series&) const = default;
};

/// Names a series. Only the first `word_bytes_max` bytes count of a word that is known only at run
/// time.
/// @pre the metric may have these words, as many as it has labels
series series_of(metric id, label_words words);

/// Whether a series of the metric may have these words.
bool may_have(const metric_info& info, const series& which) noexcept;

/// Numbers by metric and label words, as of one moment: whoever counts fills in a value, and
/// whoever shows numbers reads it by name. Code that only passes samples on does not know which
/// metrics there are.
///
/// Threads: none; a value. Units: those of `metric_table()`; latencies in nanoseconds.
/// Errors: words that the metric cannot have, or a value for a histogram, are faults of ours and
/// assert. Limit: a series beyond `series_max` is left out.
class samples {
public:
  /// Room for six metrics of each of the 1,024 peers that a process may name, and for all other
  /// metrics.
  static constexpr std::size_t series_max = std::size_t{1} << 14;

  /// Sets a metric's value. @pre the metric is a gauge or a counter, without labels where no words
  /// are given
  template <class Number>
  void set(metric id, Number now) {
    put({}, id) = number(now);
  }
  template <class Number>
  void set(metric id, label_words words, Number now) {
    put(words, id) = number(now);
  }
  /// Adds to the value, which begins at 0.
  void add(metric id, std::uint64_t more = 1) { put({}, id) += number(more); }
  void add(metric id, label_words words, std::uint64_t more) { put(words, id) += number(more); }
  /// Sets a histogram's snapshot. @pre the metric is a histogram
  void set(metric id, label_words words, latency_snapshot now);

  /// Takes all values of `newer` over; series that `newer` does not have stay as they are.
  void take(const samples& newer);
  /// Adds all values and latencies of `more`, so that the sums are what all processes counted
  /// together. Moments (seconds since 1970) are not added: the latest one counts.
  void add(const samples& more);
  /// Sets all gauges to 0. For samples of a process that is gone: only its counters still count.
  void zero_gauges();

  /// Whether there is a value of the metric without labels.
  bool has(metric id) const;
  /// The value; 0 for a series that is not there.
  double value(metric id, label_words words = {}) const;
  /// The value as a whole number, for metrics that count things or are 0 or 1.
  std::uint64_t count(metric id, label_words words = {}) const;
  /// The value in milliseconds, where the metric's unit is the second.
  std::uint64_t milliseconds(metric id) const;
  /// The histogram; empty for a series that is not there.
  latency_snapshot latency(metric id, label_words words) const;

  std::size_t size() const noexcept { return values_.size() + latencies_.size(); }
  const std::map<series, double>& values() const noexcept { return values_; }
  const std::map<series, latency_snapshot>& latencies() const noexcept { return latencies_; }

  /// Sets a series of samples that came from another process. @pre `may_have`, and the value's kind
  /// is the metric's
  void set(const series& which, double now);
  void set(const series& which, latency_snapshot now);

private:
  template <class Number>
  static double number(Number value) noexcept {
    static_assert(std::is_arithmetic_v<Number>);
    return static_cast<double>(value);
  }
  double& put(label_words words, metric id);
  /// The place of a series' value, added when it is not there; null beyond the limit.
  template <class Value>
  Value* room(std::map<series, Value>& all, const series& which);

  std::map<series, double> values_;
  std::map<series, latency_snapshot> latencies_;
  double left_out_ = 0; ///< Takes the values of series beyond the limit; nobody reads it.
};

} // namespace peercache::metrics
