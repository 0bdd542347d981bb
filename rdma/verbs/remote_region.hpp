#pragma once

#include "common/ids.hpp"
#include "rdma/verbs/verbs_protocol.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace peercache::rdma {

/// A peer's pool as one rail of it can be read: where table and pages lie in the peer's address
/// space, and the keys of the chunks that are registered so far.
/// Threads: none; the channel's owner serializes. Invariant: hands out no address outside of what
/// the peer announced.
class remote_region {
public:
  remote_region() = default;
  /// @pre well_formed(answer)
  explicit remote_region(const verbs_answer& answer) : announced_(answer) {}

  /// Adds a chunk; false for one that the protocol does not allow.
  bool add(const region_chunk& chunk);
  /// Every chunk is there.
  bool complete() const noexcept { return chunks_.size() == announced_.chunks; }

  /// Where the page's bytes begin; nothing when slot and length do not lie in the pool.
  std::optional<std::uint64_t> page_address(slot_id slot,
                                            std::uint32_t length_bytes) const noexcept;
  /// @pre page_address said so for the slot
  std::uint64_t entry_address(slot_id slot) const noexcept;

  struct readable {
    std::uint32_t rkey = 0;
    std::uint64_t bytes = 0; ///< How many bytes from the address on have this key.
  };
  /// The memory that can be READ from `address` on; nothing when its chunk is not registered yet.
  std::optional<readable> find(std::uint64_t address) const noexcept;

private:
  verbs_answer announced_;
  std::vector<region_chunk> chunks_; ///< Ordered by address; chunks do not overlap.
};

} // namespace peercache::rdma
