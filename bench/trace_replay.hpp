#pragma once

#include "common/result.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// Request traces of chat services, and the hits of ideal caches on them. All functions are pure:
/// no clock, no thread. Threads: any. Errors: as `result`, with the number of the line.
namespace peercache::bench {

/// A request: its prompt as pages of 512 tokens. Equal page ids mean an equal prefix up to the end
/// of that page.
struct trace_request {
  std::uint64_t timestamp_ms = 0; ///< Milliseconds since the trace began.
  std::uint32_t input_length_tokens = 0;
  std::uint32_t output_length_tokens = 0;
  std::vector<std::uint64_t> page_ids;
};

/// Parses lines of {"timestamp","input_length","output_length","hash_ids"}; other fields and empty
/// lines are skipped. A request has at most `limits::batch_pages_max` pages.
result<std::vector<trace_request>> parse_trace(std::string_view text);

/// Parses the requests in the file at `path` as `parse_trace` does.
result<std::vector<trace_request>> load_trace(const std::string& path);

std::size_t references_in(const std::vector<trace_request>& requests) noexcept;
std::size_t distinct_pages_in(const std::vector<trace_request>& requests);

/// Returns the requests with their page ids renumbered from 0 without gaps, so that an array can be
/// indexed by page.
std::vector<trace_request> with_dense_ids(std::vector<trace_request> requests);

struct hit_count {
  std::uint64_t references = 0;
  /// Hits: pages inside the leading run of their request that were present.
  std::uint64_t hits = 0;

  double rate() const noexcept {
    return references == 0 ? 0 : static_cast<double>(hits) / static_cast<double>(references);
  }
};

/// Counts the hits of one cache that serves all requests, holds `capacity_pages` pages and evicts
/// the least recently used one. Missing pages are inserted; the pages of a request are touched from
/// last to first.
/// @pre `capacity_pages` > 0
hit_count simulate_global_lru(const std::vector<trace_request>& requests,
                              std::size_t capacity_pages);

/// Counts the hits of a cache with room for everything: no cache can have more.
hit_count simulate_unlimited(const std::vector<trace_request>& requests);

/// Replays the requests against any cache and counts its hits. The cache has `bool
/// Cache::contains(page_id)` and `void Cache::use(page_id)`, which touches a page that is present
/// and inserts one that is not.
template <class Cache>
hit_count replay(const std::vector<trace_request>& requests, Cache& cache) {
  hit_count count;
  for (const trace_request& request : requests) {
    std::size_t run = 0;
    while (run < request.page_ids.size() && cache.contains(request.page_ids[run])) {
      ++run;
    }
    count.hits += run;
    count.references += request.page_ids.size();
    for (auto page = request.page_ids.rbegin(); page != request.page_ids.rend(); ++page) {
      cache.use(*page);
    }
  }
  return count;
}

} // namespace peercache::bench
