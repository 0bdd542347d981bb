#pragma once

#include "link/protocol/calls.hpp"

#include <caf/error.hpp>
#include <caf/sec.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::link {

/// The most bytes of one client's spaces that are read; of a report without `space_calls` beyond
/// the bounds of client/call_log.hpp `encode_spaces` makes fewer.
inline constexpr std::size_t spaces_bytes_max = 16u << 20;

/// The calls of a client as they travel (`wire_version`), little endian. A text is its length (4
/// bytes) and its bytes; a list the number of its elements (4 bytes) and those:
///
///     spaces: door, fields, facts (name, value), pages (8 bytes each),
///             unasked (reason, 8 bytes), failed (call, status: 1 byte each, age_ms: 8 bytes,
///             digest, caller_key)
std::string encode_spaces(const std::vector<space_calls>& spaces);
/// Reads bytes that anybody may have written. False, and `into` is empty: they are cut short or go
/// on, or are more than `spaces_bytes_max`. Allocates no more than a small multiple of the bytes.
bool decode_spaces(std::string_view bytes, std::vector<space_calls>& into);

/// CAF reads and writes reports by this. A message with malformed spaces is not delivered.
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, call_report& x) {
  if constexpr (Inspector::reads_state) {
    auto spaces = encode_spaces(x.spaces);
    return f(x.client, x.ended, x.age_ms, spaces);
  } else {
    std::string spaces;
    if (auto fault = f(x.client, x.ended, x.age_ms, spaces))
      return fault;
    if (!decode_spaces(spaces, x.spaces))
      return caf::make_error(caf::sec::invalid_argument, "malformed calls of a client");
    return {};
  }
}

} // namespace peercache::link
