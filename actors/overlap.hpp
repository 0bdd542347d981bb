#pragma once

#include "common/ids.hpp"
#include "common/limits.hpp"
#include "common/page_key.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::actors {

/// A router's question: how much of a prompt, from its first block on, does each node have?
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
  std::uint64_t longest = 0; ///< Blocks of which each page is in memory or on disk.
  std::uint64_t memory = 0;
  std::uint64_t disk = 0;
};

/// Counts the leading blocks of each node that has the first block. Cost: a step for each block and
/// node whose run has not ended.
/// @pre holders.size() == blocks * spaces
std::vector<node_overlap> overlaps_of(std::span<const page_holders> holders, std::uint32_t spaces);

/// The hash of each full page of a prompt as SGLang makes it: SHA-256, in hex, of the previous
/// page's hash and this page's tokens.
std::vector<std::string> sglang_page_hashes(std::span<const std::uint32_t> tokens,
                                            std::uint32_t page_tokens);

} // namespace peercache::actors
