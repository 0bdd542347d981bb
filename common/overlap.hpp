#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace peercache {

/// A router's question: how much of a prompt, from its first token on, does each node have?
struct overlap_query {
  /// The fields of the key space of each rank of a TP group: a block counts where the pages of all
  /// ranks are.
  std::vector<std::vector<std::string>> spaces;
  std::uint32_t block_tokens = 0; ///< Tokens of a page.
  /// Whether the prompt is given by `tokens`, whose pages are hashed as SGLang's HiCache does. If
  /// not, it is given by `hashes`, the keys of its pages.
  bool by_tokens = false;
  std::vector<std::string> hashes;
  std::vector<std::uint32_t> tokens;
  std::string node; ///< Name of the one node that is asked about; empty: all nodes.
};

/// How many tokens of a prompt, from the first one on, one node has in each tier.
struct overlap_match {
  std::string node;
  std::uint64_t longest = 0; ///< Tokens before the first block with a page in none of the tiers.
  std::uint64_t gpu = 0;     ///< Tokens that one engine of the host holds on its GPUs.
  std::uint64_t memory = 0;
  std::uint64_t disk = 0;
  /// The value of `gpu` among the engines of one data parallel rank, by rank.
  std::map<std::uint32_t, std::uint64_t> gpu_by_rank = {};
};

} // namespace peercache
