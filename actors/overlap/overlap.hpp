#pragma once

#include "common/ids.hpp"
#include "common/limits.hpp"
#include "common/overlap.hpp"
#include "common/page_key.hpp"
#include "common/result.hpp"
#include "discovery/view.hpp"
#include "link/protocol/overlap_wire.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::actors {

/// The most key spaces of one question, and the most fields of one key space.
inline constexpr std::size_t overlap_spaces_max = 256;
inline constexpr std::size_t overlap_fields_max = 64;

/// A router's question as the search works with it: how much of a prompt, from its first block on,
/// does each node have?
struct overlap_question {
  /// The most keys of one question: blocks times key spaces.
  static constexpr std::size_t keys_max = 1u << 16;

  /// The keys of all blocks, `spaces` for each block, in the order of the prompt. Until the
  /// question is asked they have no epoch.
  std::vector<page_key> keys;
  std::uint32_t spaces = 1; ///< Pages of one block: the key spaces of all ranks of a TP group.
  std::uint32_t block_tokens = 1;
  std::string tenant; ///< The query's tenant; it is only repeated in the answer.
  std::string node;   ///< The name of the one node that is asked about; empty: all nodes.

  std::size_t blocks() const noexcept { return keys.size() / spaces; }
};

/// Returns what a question of this size lacks, or has too much of; nothing when it can be asked.
std::optional<std::string> overlap_size_fault(std::uint64_t block_tokens, std::size_t spaces,
                                              std::size_t blocks);
/// Adds the key of a block in each key space.
void add_block(overlap_question& question, const std::vector<key_space>& spaces,
               std::string_view hash);
/// Makes the keys of a query. Errors: `invalid_argument`, with what is wrong.
result<overlap_question> question_of(const overlap_query& query);

/// The nodes that have one page, each once.
struct page_holders {
  static constexpr std::uint8_t in_memory = 1, on_disk = 2;
  struct holder {
    node_id node;
    std::uint8_t tiers = 0;
  };
  std::uint8_t count = 0;
  std::array<holder, limits::locations_per_key_max> each;

  /// Notes that a node has the page in a tier. @pre a place is free, or the node has a place
  /// already
  void add(node_id node, std::uint8_t tier) noexcept;
  /// The tiers in which a node has the page; 0: in none.
  std::uint8_t tiers_of(node_id node) const noexcept;
};

/// The leading blocks of a prompt that one node has: of each block the pages of all ranks.
struct node_overlap {
  node_id node;
  std::uint64_t longest = 0; ///< Blocks of which each page is in memory or on disk, or on a GPU.
  std::uint64_t memory = 0;
  std::uint64_t disk = 0;
  std::uint64_t gpu = 0; ///< Blocks that one engine of the node's host holds on its GPUs.
  /// Like `gpu`, but by rank of data parallelism, for the engines of that rank only.
  std::map<std::uint32_t, std::uint32_t> gpu_ranks = {};
};

/// What the engines of one node hold on their GPUs.
struct gpu_overlap {
  node_id node;
  link::gpu_run run;
};

/// Counts the leading blocks of each node that has the first block. Cost: a step for each block and
/// node whose run has not ended.
/// @param gpu each node at most once, with no more blocks than there are
/// @pre holders.size() == blocks * spaces
std::vector<node_overlap> overlaps_of(std::span<const page_holders> holders, std::uint32_t spaces,
                                      std::span<const gpu_overlap> gpu = {});

/// What a router is told: tokens by tier, of the nodes of the view that it asks about.
std::vector<overlap_match> matches_of(const overlap_question& asked,
                                      std::span<const node_overlap> found,
                                      const discovery::view& view);

/// The hash of each full page of a prompt as SGLang makes it: SHA-256, in hex, of the previous
/// page's hash and this page's tokens.
std::vector<std::string> sglang_page_hashes(std::span<const std::uint32_t> tokens,
                                            std::uint32_t page_tokens);

} // namespace peercache::actors
