#pragma once

#include "common/result.hpp"
#include "handoff/kv_layout.hpp"

#include <cstdint>
#include <span>

namespace peercache::handoff {

/// What a receiver takes from one prefill worker. A worker of which it takes nothing is a dummy:
/// the receiver joins it, so that the dummy's room can end, and reads nothing from it.
struct source_role {
  bool kv = false;
  /// Whether the receiver takes this worker's share of states that are split over tensor parallel
  /// ranks (mamba).
  bool shared_states = false;
  /// Whether the receiver takes from this worker the states that each tensor parallel rank has
  /// whole.
  bool whole_states = false;
  bool aux = false;
  bool operator==(const source_role&) const = default;

  bool dummy() const noexcept { return *this == source_role{}; }
};

/// The role of the prefill worker `source` for `destination`. If several workers have the same
/// bytes, only the first one is read. Errors: `incompatible`, when the numbers of ranks of the two
/// engines do not go together; `invalid_argument`, when these two workers have nothing to do with
/// each other.
result<source_role> role_of(const kv_layout& source, const kv_layout& destination);

/// A worker's place in its prefill engine, as its layout says.
struct source_place {
  worker_ranks ranks;
  bool all_cp_ranks_send = false;
};

/// Checks that `sources` are all prefill workers that `destination` has to join, each once. Context
/// parallel ranks that send nothing may be among them. Errors: `invalid_argument`.
/// @pre `role_of` has a role for each source
result<void> check_sources(std::span<const source_place> sources, const worker_ranks& destination);

/// The number of decode workers that join a room at the prefill worker `source`.
std::uint32_t receivers_of(const worker_ranks& source, const worker_ranks& destination) noexcept;

/// A contiguous share of items: `count` from `first` on.
struct item_share {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

/// The share of one context parallel rank in `count` pages: shares are as equal as possible, and
/// the longer shares come first. @pre rank < ranks
item_share share_of(std::uint32_t count, std::uint32_t rank, std::uint32_t ranks) noexcept;

} // namespace peercache::handoff
