#pragma once

#include "common/byte_codec.hpp"
#include "handoff/lease_table.hpp"

namespace peercache::handoff {

/// Appends a lease in the format of `handoff_wire_version`.
void append_lease(byte_writer& out, const lease& under);

/// Reads what `append_lease` wrote. A lease whose generation no `lease_table` gives fails the
/// reader.
lease read_lease(byte_reader& in);

} // namespace peercache::handoff
