#pragma once

#include "link/protocol/calls.hpp"

#include <caf/error.hpp>
#include <caf/sec.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::link {

/// Most bytes of one client's spaces that are read. `encode_spaces` makes fewer of a report whose
/// spaces keep to the bounds of client/notes/call_log.hpp.
inline constexpr std::size_t spaces_bytes_max = 16u << 20;

/// Encodes the calls of a client as they travel (`wire_version`), little endian. A text is its
/// length (4 bytes) and its bytes; a list is the number of its elements (4 bytes) and the elements:
///
///     spaces: space (8 bytes), door, fields, facts (name, value), pages (8 bytes each),
///             unasked (reason, 8 bytes), failed (call, status: 1 byte each, age_ms: 8 bytes,
///             digest, caller_key)
///     watch:  slow (call, waited_for: 1 byte each, pages, failed: 4 bytes each, age_ms, took_us,
///             waited_us: 8 bytes each, peer, digest), uses (space: 8 bytes, pages: a list of
///             8 bytes each), data_plane
std::string encode_spaces(const std::vector<space_calls>& spaces);
/// Decodes bytes that anybody may have written. Returns false and empties `into` when the bytes are
/// cut short, go on after the end, or are more than `spaces_bytes_max`. Allocates no more than a
/// small multiple of the bytes.
bool decode_spaces(std::string_view bytes, std::vector<space_calls>& into);

/// Most bytes of one client's slow calls, uses and data plane that are read; a client makes fewer,
/// by the bounds of client/notes/call_watch.hpp.
inline constexpr std::size_t watch_bytes_max = 64u << 10;
/// The slow calls, uses and data plane of a report, as they travel.
std::string encode_watch(const call_report& from);
/// Decodes slow calls, uses and data plane into `into`, and rejects bytes as `decode_spaces` does.
bool decode_watch(std::string_view bytes, call_report& into);

/// Lets CAF read and write reports. A message with malformed spaces or watch is not delivered.
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, call_report& x) {
  if constexpr (Inspector::reads_state) {
    auto spaces = encode_spaces(x.spaces);
    auto watch = encode_watch(x);
    return f(x.client, x.ended, x.age_ms, spaces, watch);
  } else {
    std::string spaces, watch;
    if (auto fault = f(x.client, x.ended, x.age_ms, spaces, watch))
      return fault;
    if (!decode_spaces(spaces, x.spaces) || !decode_watch(watch, x))
      return caf::make_error(caf::sec::invalid_argument, "malformed calls of a client");
    return {};
  }
}

} // namespace peercache::link
