#pragma once

#include "common/result.hpp"
#include "handoff/kv_layout.hpp"
#include "handoff/row_copies.hpp"

#include <cstdint>
#include <vector>

namespace peercache::handoff {

/// The stripe of items that are copied as they are.
item_stripe whole_items(std::uint32_t item_bytes) noexcept;

/// The heads that go from pages of `source_bytes` to pages of `destination_bytes`: a page has one
/// row for each token, and a row the heads of its rank, in order. With equal numbers of tensor
/// parallel ranks, and with MLA, the whole page goes. Offsets in the result count from the item's
/// begin. Errors: `incompatible`, when the lengths are not those that the ranks must have.
result<item_stripe> slice_of_heads(const kv_layout& source, const kv_layout& destination,
                                   std::uint32_t source_bytes, std::uint32_t destination_bytes);

/// The shares of an item of states that go from tensor `from` to tensor `to`. For mamba each group
/// of a row is shared out by itself. All other states are whole on each rank of an engine with MLA;
/// without MLA they cannot go between different numbers of ranks. Errors: `incompatible`.
result<std::vector<item_stripe>> slices_of_states(const kv_layout& source,
                                                  const kv_layout& destination, state_type type,
                                                  const state_tensor& from, const state_tensor& to);

} // namespace peercache::handoff
