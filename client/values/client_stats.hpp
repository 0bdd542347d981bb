#pragma once

#include "common/page_origin.hpp"
#include "common/page_status.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace peercache::client {

/// What became of a page that `exists` found and was to hold.
enum class hold_fate : std::uint8_t { held, refused, gone, on_disk, unanswered };
inline constexpr std::size_t hold_fate_count = 5;
inline constexpr std::array<std::string_view, hold_fate_count> hold_fate_words{
    "held", "refused", "gone", "on_disk", "unanswered"};

/// Totals since the client was made.
struct client_stats {
  /// Look-ups sent; a get that the location cache answers sends none.
  std::uint64_t directory_messages = 0;
  /// How many of `directory_messages` were none: answered from the memory of this host's shard, or
  /// by READs of the owner's (over RDMA); and the number of these READs.
  std::uint64_t lookups_own = 0, lookups_read = 0, shard_reads = 0;
  std::uint64_t location_cache_hits = 0;
  std::uint64_t get_pages[page_status_count] = {};
  std::uint64_t get_bytes[page_origin_count] = {};
  std::uint64_t get_hits[page_origin_count] = {};
  std::uint64_t set_pages[page_status_count] = {};
  std::uint64_t set_bytes = 0;
  std::uint64_t exists_pages[page_status_count] = {};
  std::uint64_t holds[hold_fate_count] = {};
  std::uint64_t retries = 0;        ///< Pages looked up a second time after a stale location.
  std::uint64_t view_refreshes = 0; ///< Look-ups that fetched a newer view and asked again.
};

} // namespace peercache::client
