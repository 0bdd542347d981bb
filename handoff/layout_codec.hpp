#pragma once

#include "common/byte_codec.hpp"
#include "handoff/kv_layout.hpp"
#include "handoff/limits.hpp"

#include <cstddef>

namespace peercache::handoff {

/// Length of the longest encoded layout that handoff/limits.hpp allows.
inline constexpr std::size_t layout_bytes_max = [] {
  constexpr std::size_t number = 4, buffer = 24, flags = 3, model_numbers = 4, rank_numbers = 6;
  constexpr std::size_t tensor = buffer + (3 + limits::conv_groups_max) * number;
  constexpr std::size_t component = 1 + number + limits::tensors_per_component_max * tensor;
  return 1 + limits::dtype_bytes_max + flags + (1 + model_numbers + rank_numbers) * number +
         number + limits::buffers_max * buffer +             //
         number + limits::state_components_max * component + //
         number + limits::aux_fields_max * buffer;
}();

/// Appends a worker's layout in the format of `handoff_wire_version`.
void append_layout(byte_writer& out, const kv_layout& layout);

/// Reads what `append_layout` wrote. Other bytes fail the reader, and the returned layout must not
/// be used then. The layout is not yet checked by `check`.
kv_layout read_layout(byte_reader& in);

} // namespace peercache::handoff
