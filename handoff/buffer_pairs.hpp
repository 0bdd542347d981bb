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
/// that lacks a partner is an error. If neither does, buffers are paired by place: that takes
/// `model_layers` when prefill has more pipeline stages than decode, and leaves the buffers of a
/// draft model that only decode has without a partner. Errors: `incompatible`.
/// @pre both layouts are checked
result<std::vector<buffer_pair>> pair_kv(const kv_layout& source, const kv_layout& destination);

/// Pairs the tensors of component `index` of the states as `pair_kv` pairs buffers; by place only
/// if prefill and decode have equally many tensors and pipeline stages. Errors: `incompatible`.
/// @pre both layouts are checked, and have this component
result<std::vector<buffer_pair>> pair_states(const kv_layout& source, const kv_layout& destination,
                                             std::size_t index);

} // namespace peercache::handoff
