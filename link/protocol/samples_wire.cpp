#include "link/protocol/samples_wire.hpp"

#include "common/byte_codec.hpp"

#include <cmath>
#include <cstdint>
#include <utility>

namespace peercache::link {

namespace {

using metrics::latency_snapshot;
using metrics::metric_info;
using metrics::metric_type;
using metrics::series;

constexpr std::size_t name_bytes_max = 255;
constexpr std::size_t series_bytes_max =
    1 + name_bytes_max + 4 + 2 + metrics::labels_per_metric_max * (1 + metrics::word_bytes_max) + 8;
// An eighth of the limit is left for the buckets of the histograms, of which there are few series.
static_assert(metrics::samples::series_max * series_bytes_max < samples_bytes_max / 8 * 7);

/// Returns the first part of a series' body: its kind and its words.
std::string body_of(const series& which, bool is_histogram) {
  std::string body;
  byte_writer out(body);
  out.number(static_cast<std::uint8_t>(is_histogram));
  const auto labels = metrics::info_of(which.id).labels.size();
  out.number(static_cast<std::uint8_t>(labels));
  for (std::size_t i = 0; i < labels; ++i)
    out.short_text(which.words[i]);
  return body;
}

void append(byte_writer& out, const series& which, std::string_view body) {
  out.short_text(metrics::info_of(which.id).name);
  out.number(static_cast<std::uint32_t>(body.size()));
  out.text(body);
}

void write(byte_writer& out, const latency_snapshot& latency) {
  out.number(latency.count);
  out.number(latency.sum_ns);
  out.number(latency.max_ns);
  for (std::size_t i = 0; i < latency.bucket_counts.size(); ++i)
    if (latency.bucket_counts[i] != 0) {
      out.number(static_cast<std::uint16_t>(i));
      out.number(latency.bucket_counts[i]);
    }
}

/// Reads a histogram, to the end of the body; a bucket that does not exist here is left out.
latency_snapshot read_latency(byte_reader& in) {
  latency_snapshot latency;
  latency.bucket_counts.resize(metrics::latency_histogram::bucket_count);
  latency.count = in.number<std::uint64_t>();
  latency.sum_ns = in.number<std::uint64_t>();
  latency.max_ns = in.number<std::uint64_t>();
  while (in.ok() && !in.finished()) {
    const auto bucket = in.number<std::uint16_t>();
    const auto count = in.number<std::uint64_t>();
    if (bucket < latency.bucket_counts.size())
      latency.bucket_counts[bucket] = count;
  }
  return latency;
}

/// Reads the body of one series into `into`, unless this process has no such series. False when the
/// body is malformed.
bool read_body(const metric_info& info, std::string_view body, metrics::samples& into) {
  byte_reader in(body);
  const bool is_histogram = in.number<std::uint8_t>() != 0;
  const std::size_t labels = in.number<std::uint8_t>();
  if (labels != info.labels.size() || is_histogram != (info.type == metric_type::histogram))
    return in.ok();
  series which{info.id, {}};
  for (std::size_t i = 0; i < labels; ++i)
    which.words[i] = in.short_text();
  const bool known = metrics::may_have(info, which);
  if (is_histogram) {
    auto latency = read_latency(in);
    if (in.ok() && known)
      into.set(which, std::move(latency));
  } else {
    const auto value = in.number<double>();
    if (in.ok() && known && std::isfinite(value) && value >= 0)
      into.set(which, value);
  }
  return in.finished();
}

} // namespace

std::string encode_samples(const metrics::samples& from) {
  std::string bytes;
  byte_writer out(bytes);
  for (const auto& [which, value] : from.values()) {
    auto body = body_of(which, false);
    byte_writer(body).number(value);
    append(out, which, body);
  }
  for (const auto& [which, latency] : from.latencies()) {
    auto body = body_of(which, true);
    byte_writer rest(body);
    write(rest, latency);
    append(out, which, body);
  }
  return bytes;
}

result<metrics::samples> decode_samples(std::string_view bytes) {
  if (bytes.size() > samples_bytes_max)
    return {errc::invalid_argument, "more samples than are read"};
  metrics::samples read;
  byte_reader in(bytes);
  std::size_t count = 0;
  while (!in.finished()) {
    const auto name = in.short_text();
    const auto body = in.take(in.number<std::uint32_t>());
    if (!in.ok() || ++count > metrics::samples::series_max)
      return {errc::invalid_argument, "samples are cut short, or too many"};
    const auto* info = metrics::find_metric(name);
    if (info != nullptr && !read_body(*info, body, read))
      return {errc::invalid_argument, "a sample of " + std::string(name) + " is malformed"};
  }
  return read;
}

} // namespace peercache::link
