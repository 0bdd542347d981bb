#pragma once

#include "common/result.hpp"
#include "metrics/samples.hpp"

#include <caf/error.hpp>
#include <caf/sec.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace peercache::link {

/// The most bytes of samples that are read; `encode_samples` never makes as many.
inline constexpr std::size_t samples_bytes_max = 16u << 20;

/// Encodes samples as they travel (`wire_version`): each series by the name of its metric and its
/// words, so that a metric which only one side has changes nothing for the others. One series is
///
///     name: length (1 byte), text
///     length of the body (4 bytes), body:
///       1 for a histogram, else 0 (1 byte)
///       labels (1 byte), and for each label its word: length (1 byte), text
///       the value (a double), or count, sum_ns, max_ns (8 bytes each) and each bucket that is not
///       empty: index (2 bytes), count (8 bytes)
///
/// The length of the body lets a reader skip a series whose metric it does not know.
std::string encode_samples(const metrics::samples& from);

/// Decodes bytes that anybody may have written. Leaves out series that this process's table does
/// not know (a name, a word, another number of labels, another type) and values that no metric has
/// (below 0, not finite). Errors (`invalid_argument`): bytes that are cut short or go on, more than
/// `samples_bytes_max`, or more series than `metrics::samples::series_max`.
result<metrics::samples> decode_samples(std::string_view bytes);

} // namespace peercache::link

namespace peercache::metrics {

/// Lets CAF read and write samples. A message with malformed samples is not delivered.
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, samples& x) {
  if constexpr (Inspector::reads_state) {
    auto bytes = link::encode_samples(x);
    return f(bytes);
  } else {
    std::string bytes;
    if (auto fault = f(bytes))
      return fault;
    auto read = link::decode_samples(bytes);
    if (!read)
      return caf::make_error(caf::sec::invalid_argument, read.error().message);
    x = std::move(*read);
    return {};
  }
}

} // namespace peercache::metrics
