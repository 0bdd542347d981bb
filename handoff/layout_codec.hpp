#pragma once

#include "common/byte_codec.hpp"
#include "handoff/kv_layout.hpp"

namespace peercache::handoff {

/// A worker's layout in a message (`handoff_wire_version`).
void append_layout(byte_writer& out, const kv_layout& layout);

/// Reads what `append_layout` wrote; anything else fails the reader, and the result is of no use.
/// The layout is not checked (`check`).
kv_layout read_layout(byte_reader& in);

/// Reads a byte that is 0 or 1.
bool read_bool(byte_reader& in) noexcept;

} // namespace peercache::handoff
