#pragma once

#include <cstdint>
#include <string_view>

namespace peercache {

/// The fate of one page in one call. The first three are successes; every other status is the
/// reason of a miss or a refusal. Answers, metrics and logs use the status's word. The numbers
/// travel, so a change is another `wire_version` and another `tcp_wire_version`.
enum class page_status : std::uint8_t {
  hit,       ///< get, exists: the page was found.
  stored,    ///< set: the page is in the pool.
  duplicate, ///< set: the page is readable in the cluster already, and nothing was stored.
  not_found, ///< No directory owner knows the key.
  /// The slot's generation is no longer the record's: the page was evicted, removed or overwritten.
  stale,
  /// The record's incarnation is not that of the process that serves now, or is not in the view.
  holder_gone,
  wrong_key, ///< The slot holds another page than the record says.
  corrupt,   ///< The checksum of the bytes that arrived differs from the record's.
  timed_out,
  /// There is no connection to the holder, to any directory owner, or to this host's node; set: the
  /// page is in the pool, but no directory owner has recorded it.
  unreachable,
  breaker_open, ///< The peer failed repeatedly and is not asked for a while.
  /// A limit in bytes or number was reached, a slot is not being filled, memory is not served, a
  /// request or answer is malformed, or the disk is closing.
  refused,
  no_space, ///< set: the pool could free no memory for the page within 0.2 s.
  bad_size, ///< The parts do not add up to the page's length, or a limit is exceeded.
  closed,   ///< The client or node is shutting down.
  pending,  ///< The page is not decided yet; a call returns this status only for later pages of a
            ///< chain, which it did not ask about.
};

inline constexpr std::size_t page_status_count = 16;

constexpr bool is_success(page_status status) noexcept {
  return status <= page_status::duplicate;
}

/// Word of a status, such as "hit" or "not_found"; also the value of the metrics' `reason` label.
std::string_view to_string(page_status status) noexcept;

} // namespace peercache
