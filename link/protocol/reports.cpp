#include "link/protocol/reports.hpp"

namespace peercache::link {

latency_report::latency_report(const metrics::latency_snapshot& from)
    : count(from.count), sum_ns(from.sum_ns), max_ns(from.max_ns) {
  for (std::size_t i = 0; i < from.bucket_counts.size(); ++i)
    if (from.bucket_counts[i] != 0) {
      buckets.push_back(i);
      buckets.push_back(from.bucket_counts[i]);
    }
}

metrics::latency_snapshot latency_report::snapshot() const {
  metrics::latency_snapshot made;
  made.bucket_counts.resize(metrics::latency_histogram::bucket_count);
  made.count = count;
  made.sum_ns = sum_ns;
  made.max_ns = max_ns;
  for (std::size_t i = 0; i + 1 < buckets.size(); i += 2)
    if (buckets[i] < made.bucket_counts.size())
      made.bucket_counts[buckets[i]] = buckets[i + 1];
  return made;
}

} // namespace peercache::link
