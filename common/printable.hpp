#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace peercache {

/// How many bytes of a text from another process a line for people may hold.
inline constexpr std::size_t peer_text_bytes_max = 256;

/// Makes a text from another process fit for a line for people (of a log, a terminal, a report):
/// at most `peer_text_bytes_max` bytes, with a `?` in place of each that is not printable ASCII.
std::string peer_text(std::string_view said);

/// Returns the text with a `?` in place of each byte that is not printable ASCII. For texts
/// whose length is bounded; `peer_text` is for all others.
std::string printable(std::string text);

} // namespace peercache
