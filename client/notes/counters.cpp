#include "client/notes/counters.hpp"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

namespace peercache::client {
namespace {

using metrics::metric;

void add_pages(metrics::samples& to, std::string_view op,
               const std::array<counters::count, page_status_count>& by_status) {
  for (std::size_t i = 0; i < by_status.size(); ++i)
    if (const auto status = static_cast<page_status>(i); status != page_status::pending)
      to.set(metric::pages_total, {op, to_string(status)}, by_status[i].load());
}

void add_calls(metrics::samples& to, std::string_view op, const metrics::latency_histogram& took) {
  auto now = took.snapshot();
  to.set(metric::requests_total, {op}, now.count);
  to.set(metric::op_seconds, {op}, std::move(now));
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

void counters::count_holds(const std::array<std::uint64_t, hold_fate_count>& seen) noexcept {
  add(seen, holds);
}

client_stats counters::stats() const {
  client_stats now;
  now.directory_messages = directory_messages;
  now.lookups_own = lookups_own;
  now.lookups_read = lookups_read;
  now.shard_reads = shard_reads;
  now.location_cache_hits = location_cache_hits;
  now.retries = retries;
  now.view_refreshes = view_refreshes;
  now.set_bytes = set_bytes;
  copy_to(get_status, now.get_pages);
  copy_to(set_status, now.set_pages);
  copy_to(exists_status, now.exists_pages);
  copy_to(holds, now.holds);
  copy_to(get_hits, now.get_hits);
  copy_to(get_bytes, now.get_bytes);
  return now;
}

metrics::samples counters::samples() const {
  metrics::samples now;
  add_pages(now, "get", get_status);
  add_pages(now, "set", set_status);
  add_pages(now, "exists", exists_status);
  add_calls(now, "get", get_latency);
  add_calls(now, "set", set_latency);
  add_calls(now, "exists", exists_latency);
  static_assert(metrics::hold_words == hold_fate_words);
  for (std::size_t i = 0; i < hold_fate_count; ++i)
    now.set(metric::holds_total, {hold_fate_words[i]}, holds[i].load());
  for (std::size_t i = 0; i < page_source_words.size(); ++i) {
    const auto source = page_source_words[i];
    now.set(metric::hits_total, {source}, get_hits[i + 1].load());
    now.set(metric::bytes_total, {"get", source}, get_bytes[i + 1].load());
  }
  now.set(metric::bytes_total, {"set", to_string(page_origin::own_host)}, set_bytes.load());
  now.set(metric::view_refreshes_total, view_refreshes.load());
  now.set(metric::shard_lookups_total, {"read"}, lookups_read.load());
  now.set(metric::shard_lookups_total, {"own"}, lookups_own.load());
  now.set(metric::shard_lookups_total, {"asked"}, lookups_asked_after_all.load());
  now.set(metric::shard_reads_total, shard_reads.load());
  now.set(metric::lookup_datagrams_total, {"sent"}, datagrams_sent.load());
  now.set(metric::lookup_datagrams_total, {"over_tcp"}, datagrams_over_tcp.load());
  now.set(metric::lookup_datagrams_total, {"dropped"}, datagrams_dropped.load());
  for (std::size_t i = 0; i < page_status_count; ++i)
    if (const auto status = static_cast<page_status>(i);
        !is_success(status) && status != page_status::pending)
      now.set(metric::misses_total, {to_string(status)}, get_status[i].load());
  return now;
}

} // namespace peercache::client
