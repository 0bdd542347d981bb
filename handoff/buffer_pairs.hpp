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

/// Pairs KV buffers. Where both sides know layers: equal ones, in the order of occurrence; a layer
/// of this stage that one side lacks is an error. Where neither does: by place, which takes the
/// number of the model's layers when prefill has more pipeline stages than decode. Buffers of a
/// draft model that only decode has stay without a partner. Errors: `incompatible`.
/// @pre both are checked
result<std::vector<buffer_pair>> pair_kv(const kv_layout& source, const kv_layout& destination);

/// Pairs the tensors of component `index` in the same way; none may be left over without pipeline
/// stages. @pre both are checked, and have this component
result<std::vector<buffer_pair>> pair_states(const kv_layout& source, const kv_layout& destination,
                                             std::size_t index);

} // namespace peercache::handoff
