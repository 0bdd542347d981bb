#include "client/counters.hpp"

#include <algorithm>

namespace peercache::client {
namespace {

template <class Array>
std::vector<std::uint64_t> values_of(const Array& counts) {
  return {counts.begin(), counts.end()};
}

template <std::size_t n>
void add(const std::array<std::uint64_t, n>& seen, std::array<counters::count, n>& to) noexcept {
  for (std::size_t i = 0; i < n; ++i)
    if (seen[i] != 0)
      to[i].fetch_add(seen[i], std::memory_order_relaxed);
}

template <class Array, std::size_t n>
void copy_to(const Array& counts, std::uint64_t (&values)[n]) {
  std::copy(counts.begin(), counts.end(), values);
}

} // namespace

void counters::count_statuses(std::span<const page_result> results,
                              std::array<count, page_status_count>& to) noexcept {
  std::array<std::uint64_t, page_status_count> seen{};
  for (const auto& result : results)
    ++seen[static_cast<std::size_t>(result.status)];
  add(seen, to);
}

void counters::count_get(std::span<const page_result> results) noexcept {
  count_statuses(results, get_status);
  std::array<std::uint64_t, page_origin_count> hits{}, bytes{};
  for (const auto& result : results)
    if (result.status == page_status::hit) {
      ++hits[static_cast<std::size_t>(result.origin)];
      bytes[static_cast<std::size_t>(result.origin)] += result.length_bytes;
    }
  add(hits, get_hits);
  add(bytes, get_bytes);
}

client_stats counters::stats() const {
  client_stats now;
  now.directory_messages = directory_messages;
  now.location_cache_hits = location_cache_hits;
  now.retries = retries;
  now.view_refreshes = view_refreshes;
  now.set_bytes = set_bytes;
  copy_to(get_status, now.get_pages);
  copy_to(set_status, now.set_pages);
  copy_to(exists_status, now.exists_pages);
  copy_to(get_hits, now.get_hits);
  copy_to(get_bytes, now.get_bytes);
  return now;
}

link::client_report counters::report(std::uint64_t breakers_open) const {
  link::client_report now;
  now.get_status = values_of(get_status);
  now.set_status = values_of(set_status);
  now.exists_status = values_of(exists_status);
  now.get_hits = values_of(get_hits);
  now.get_bytes = values_of(get_bytes);
  now.set_bytes = set_bytes;
  now.breakers_open = breakers_open;
  now.view_refreshes = view_refreshes;
  now.get_latency = link::latency_report{get_latency.snapshot()};
  now.set_latency = link::latency_report{set_latency.snapshot()};
  now.exists_latency = link::latency_report{exists_latency.snapshot()};
  return now;
}

} // namespace peercache::client
