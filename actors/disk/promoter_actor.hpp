#pragma once

#include "actors/disk/promotions.hpp"
#include "actors/link_names.hpp"
#include "directory/page_location.hpp"
#include "link/protocol/disk.hpp"
#include "link/protocol/disk_wire.hpp"
#include "link/protocol/pool.hpp"

#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace peercache::actors {

struct promoter_options {
  pool_actor pool;
  disk_actor disk;
  std::uint64_t bytes_max = 256ull << 20; ///< Bound on the bytes of pages on their way.
  bool warm = true;
};

/// One client's request that is not answered yet.
struct promote_request {
  caf::typed_response_promise<std::string> promise;
  std::vector<std::optional<directory::page_location>> places;
  std::size_t left = 0;
  std::uint64_t until_ms = 0; ///< When the request is answered at the latest, by the actor's clock.
};

struct promoter_state {
  promoter_state() : pages(0) {}
  promoter_options options;
  promotions pages;
  std::unordered_map<std::uint64_t, promote_request> requests;
  std::uint64_t next_request = 1;
  std::set<std::pair<std::uint64_t, std::uint64_t>> ends; ///< until_ms and number of each request.
  /// Times of the beats that are on their way. After each beat the next one is planned by the
  /// earliest end of a request, so that many long requests do not set a timer each.
  std::set<std::uint64_t> beats_at_ms;
  metrics::samples totals; ///< Counts pages by their fate.
  static inline const char* name = "promoter";

  /// Counts a page. @param result a word of the label of `disk_promotes_total`
  void count(std::string_view result) {
    totals.add(metrics::metric::disk_promotes_total, {result}, 1);
  }
  /// Notes where one page of a request is; nothing: the page cannot be had.
  void decide(std::uint64_t waiter, const std::optional<directory::page_location>& place);
  void deliver(std::uint64_t request);
};

/// Brings pages from this node's disk into its pool: pool (room) → disk (bytes, straight into the
/// slot) → pool (published). Threads: scheduler. Asks: pool and disk of its node, which answer for
/// as long as they live. Errors: a page that cannot be had has no location in the answer.
promoter_actor::behavior_type run_promoter(promoter_actor::stateful_pointer<promoter_state> self,
                                           promoter_options options);

} // namespace peercache::actors
