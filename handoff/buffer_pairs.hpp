#pragma once

#include "common/result.hpp"
#include "handoff/kv_layout.hpp"

#include <cstdint>
#include <vector>

namespace peercache::handoff {

/// Indices of two buffers (or tensors) that hold the same layer's values.
struct buffer_pair {
  std::uint32_t source = 0;
  std::uint32_t destination = 0;
  bool operator==(const buffer_pair&) const = default;
};

/// Pairs the KV buffers of two workers. If both layouts name the layers of their buffers, buffers
/// of equal layers are paired in the order of occurrence; a buffer of a layer of the source's stage
/// that lacks a partner is an error. If neither layout names layers, buffers are paired by place:
/// this needs `model_layers` when prefill has more pipeline stages than decode, and buffers of a
/// draft model that only decode has get no partner. Errors: `incompatible`.
/// @pre both layouts are checked
result<std::vector<buffer_pair>> pair_kv(const kv_layout& source, const kv_layout& destination);

/// Pairs the tensors of component `index` of the states as `pair_kv` pairs buffers; pairing by
/// place needs equally many tensors and pipeline stages of prefill and decode. Errors:
/// `incompatible`.
/// @pre both layouts are checked, and have this component
result<std::vector<buffer_pair>> pair_states(const kv_layout& source, const kv_layout& destination,
                                             std::size_t index);

} // namespace peercache::handoff
