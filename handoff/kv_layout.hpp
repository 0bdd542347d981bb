#pragma once

#include "common/result.hpp"
#include "handoff/limits.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::handoff {

/// Layer of a buffer whose engine does not name the layer.
inline constexpr std::uint32_t no_layer = ~std::uint32_t{0};

/// One buffer of items that lie one after the other: pages of KV, items of states, or one field of
/// the aux rows.
struct kv_buffer {
  std::uint64_t address = 0; ///< Address of the first item, in the worker's own process.
  std::uint64_t length_bytes = 0;
  std::uint32_t item_bytes = 0; ///< Length of a page, of an item of states, or of an aux field.
  std::uint32_t layer = no_layer;
  bool operator==(const kv_buffer&) const = default;

  std::uint64_t items() const noexcept { return length_bytes / item_bytes; }
};

/// Kinds of components of states, named as in SGLang. The numbers are sent between workers:
/// changing one needs another `handoff_wire_version`.
enum class state_type : std::uint8_t {
  mamba,           ///< State of convolutions and recurrences: one item per request.
  swa,             ///< Pages of a sliding window.
  dsa,             ///< Pages of an index over the whole sequence.
  minimax_index_k, ///< Pages of MiniMax's index over the whole sequence.
  swa_ring,        ///< One row per position of a window, ascending.
  c128_state,      ///< At most one row per request.
};
inline constexpr std::uint8_t state_type_count = 6;
std::string_view to_string(state_type type) noexcept;

/// One tensor of a component of states. An item is `outer_count` rows of `dim` units; both numbers
/// are 0 in a tensor that is not shared out over tensor parallel ranks.
struct state_tensor {
  kv_buffer buffer;
  std::uint32_t dim = 0;
  std::uint32_t outer_count = 0;
  /// Widths, over all ranks, of the groups that a row is made of (q, k, v of GDN); each group is
  /// shared out over the ranks by itself. Empty: the row is one group.
  std::vector<std::uint32_t> conv_groups;
  bool operator==(const state_tensor&) const = default;
};

struct state_component {
  state_type type = state_type::mamba;
  std::vector<state_tensor> tensors;
  bool operator==(const state_component&) const = default;
};

/// The place of a worker among the workers of its engine: tensor, pipeline and context parallel.
struct worker_ranks {
  std::uint32_t tp = 0, tp_size = 1;
  std::uint32_t pp = 0, pp_size = 1;
  std::uint32_t cp = 0, cp_size = 1;
  bool operator==(const worker_ranks&) const = default;
};

/// What one worker (a process of an engine, one for each rank) has: where its KV pages, states and
/// aux rows lie, and how bytes are arranged in them. A worker describes itself once, and a
/// receiver plans its reads from two of these descriptions (`transfer_plan`).
///
/// Threads: a value. Ownership: addresses are numbers; nothing here reads the memory that they
/// name. Errors: `check` refuses what no engine can have; a layout that came from another process
/// is checked before anything else uses it (`decode` of handoff/messages.hpp does it). Bounds:
/// those of handoff/limits.hpp.
struct kv_layout {
  std::string dtype; ///< The engine's word for the type of KV elements.
  std::uint32_t page_tokens = 0;
  bool mla = false; ///< Multi-head latent attention: one latent per token, the same on all tensor
                    ///< parallel ranks; no heads.
  /// Whether states that are shared out over the ranks exist beside MLA's KV.
  bool hybrid_mla = false;
  /// True: every context parallel rank sends its share of the pages. False: rank 0 sends all pages.
  bool all_cp_ranks_send = false;
  /// KV heads of the model, over all ranks; 0 when this worker does not know them (decode), or with
  /// MLA.
  std::uint32_t kv_heads = 0;
  /// The first layer of this pipeline stage, and the layer behind its last; both 0 when this worker
  /// does not know them.
  std::uint32_t first_layer = 0, end_layer = 0;
  /// Layers of the model without those of a draft model; 0 when this worker does not know them.
  std::uint32_t model_layers = 0;
  worker_ranks ranks;
  /// Each layer's K, then each layer's V, then K and V of a draft model; with MLA one buffer per
  /// layer.
  std::vector<kv_buffer> buffers;
  std::vector<state_component> states;
  std::vector<kv_buffer> aux; ///< The fields of an aux row, in host memory.
  bool operator==(const kv_layout&) const = default;

  /// Whether the layers of the buffers are known.
  bool has_layer_ids() const noexcept {
    return !buffers.empty() && buffers.front().layer != no_layer;
  }
};

/// Checks that a worker can have this layout. Errors: `invalid_argument`.
result<void> check(const kv_layout& layout);

/// Checks that `destination` can use tokens that `source` computed: number type, page size, kind of
/// attention, components of states, aux fields. Layers, and lengths that depend on ranks, are
/// compared by `transfer_plan::create`. Errors: `incompatible`, with both values named.
result<void> compare(const kv_layout& source, const kv_layout& destination);

} // namespace peercache::handoff
