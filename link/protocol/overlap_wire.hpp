#pragma once

#include "common/overlap.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::link {

// What is said of the blocks on GPUs, and the binary form of a router's query and its answer, as
// they travel (`wire_version`): little endian, each in one string. A list is the number of its
// elements (4 bytes) and the elements; a text is a list of bytes. Blocks on GPUs are named by
// `page_key::prefix`, which does not change with the epoch of their space: a clear withdraws pages
// from the cache, and takes nothing from an engine's GPU. Decoders take bytes that anybody may
// have written, allocate no more than a small multiple of them, and return nothing for malformed
// ones.

/// What a client tells of the blocks on the GPU of its engine: first those that the engine has
/// evicted, then those that it has stored, since the client's last report.
struct gpu_report {
  /// The rank of an engine that has none.
  static constexpr std::uint32_t no_rank = 0xFFFFFFFF;
  /// Most keys of one report.
  static constexpr std::size_t keys_max = 1u << 15;

  std::uint32_t rank = no_rank; ///< The engine's rank of data parallelism.
  bool anew = false;            ///< Whether earlier reports of this session no longer count.
  std::vector<std::uint64_t> evicted, stored;
};
std::string encode(const gpu_report& report);
std::optional<gpu_report> decode_gpu_report(std::string_view bytes);

/// A node's question to another one: how many of these blocks, from the first one on, do your
/// engines hold on their GPUs?
struct gpu_question {
  /// Most keys of one question.
  static constexpr std::size_t keys_max = 1u << 16;

  std::uint32_t spaces = 1;            ///< Keys of one block.
  std::vector<std::uint64_t> prefixes; ///< `spaces` for each block.
};
std::string encode(const gpu_question& question);
std::optional<gpu_question> decode_gpu_question(std::string_view bytes);

/// The answer to a gpu_question.
struct gpu_run {
  bool knows_any = false;   ///< Whether any engine of the node has told of any block.
  std::uint32_t blocks = 0; ///< Leading blocks that one engine holds.
  /// Like `blocks`, but by rank of data parallelism, for the engines of that rank only; ranks with
  /// 0 blocks are left out.
  std::map<std::uint32_t, std::uint32_t> ranks = {};
};
std::string encode(const gpu_run& run);
std::optional<gpu_run> decode_gpu_run(std::string_view bytes);

/// Most bytes of an encoded query.
inline constexpr std::size_t overlap_query_bytes_max = 4u << 20;
std::string encode(const overlap_query& query);
std::optional<overlap_query> decode_overlap_query(std::string_view bytes);

std::string encode(const std::vector<overlap_match>& matches);
std::optional<std::vector<overlap_match>> decode_overlap_matches(std::string_view bytes);

} // namespace peercache::link
