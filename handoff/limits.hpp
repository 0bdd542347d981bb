#pragma once

#include "common/limits.hpp"

#include <cstddef>
#include <cstdint>

/// Bounds of what two workers tell each other about one hand-over. What exceeds them is refused.
namespace peercache::handoff::limits {

using namespace peercache::limits;

/// KV buffers of one worker: K and V of up to 512 layers.
inline constexpr std::uint32_t buffers_max = 1024;
inline constexpr std::uint32_t state_components_max = 8;
inline constexpr std::uint32_t tensors_per_component_max = 1024;
inline constexpr std::uint32_t conv_groups_max = 8;
inline constexpr std::uint32_t aux_fields_max = 32;
inline constexpr std::uint32_t dtype_bytes_max = 32;
/// Ranks in one direction (tensor, pipeline or context parallel).
inline constexpr std::uint32_t ranks_max = 1024;
inline constexpr std::uint32_t heads_max = 65'536;
inline constexpr std::uint32_t page_tokens_max = 65'536;
/// Rows of one item of a tensor of states (`state_tensor::outer_count`).
inline constexpr std::uint32_t item_rows_max = 65'536;
/// Pages of one room at one worker: 2^20 tokens in pages of one token.
inline constexpr std::uint32_t room_pages_max = 1u << 20;
/// Pages of one offer; the engine's call with more pages becomes several offers.
inline constexpr std::uint32_t offer_pages_max = 8192;
/// Rows of the peer's memory that one piece gathers.
inline constexpr std::uint32_t piece_rows_max = 16'384;
inline constexpr std::size_t reason_bytes_max = 255;
inline constexpr std::size_t cluster_bytes_max = 255;
inline constexpr std::size_t host_bytes_max = 255;
/// Pieces of one transfer; a call with more pieces becomes several transfers.
inline constexpr std::uint32_t transfer_pieces_max = 8192;

} // namespace peercache::handoff::limits
