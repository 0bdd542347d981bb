#pragma once

#include <cstdint>
#include <string_view>

namespace peercache {

/// The fate of one page in one call. The first three are successes; everything else is a miss or a
/// refusal, and the word is its reason in answers, metrics and logs. The numbers travel:
/// `wire_version` and `tcp_wire_version`.
enum class page_status : std::uint8_t {
  hit,         ///< get, exists: there.
  stored,      ///< set: in the pool.
  duplicate,   ///< set: readable in the cluster already, nothing stored.
  not_found,   ///< No directory owner knows the key.
  stale,       ///< The slot's generation is not the record's: evicted or overwritten.
  holder_gone, ///< The record's incarnation is not the one that serves now, or not in the view.
  wrong_key,   ///< The slot holds another page than the record says.
  corrupt,     ///< The checksum of the bytes that arrived differs from the record's.
  timed_out,
  unreachable,  ///< No connection to the holder or to any directory owner.
  breaker_open, ///< The peer failed repeatedly and is left alone for a moment.
  refused,      ///< A limit in bytes or in number was reached.
  no_space,     ///< set: the pool could not free enough.
  bad_size,     ///< The parts do not add up to the page's length, or a limit is exceeded.
  closed,       ///< The client or node is shutting down.
  pending,      ///< Not decided yet: never leaves a call.
};

inline constexpr std::size_t page_status_count = 16;

constexpr bool is_success(page_status status) noexcept {
  return status <= page_status::duplicate;
}

/// "hit", "not_found", …: also the value of the metrics' `reason` label.
std::string_view to_string(page_status status) noexcept;

} // namespace peercache
