#pragma once

#include "common/ids.hpp"
#include "rdma/data_plane.hpp"
#include "rdma/verbs/verbs_protocol.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace peercache::rdma {

/// A peer's pool with the areas beside it, or its memory under leases, as one rail of the peer can
/// be READ: where the table and a pool's pages lie in the peer's address space, and the keys of the
/// chunks that are registered so far.
/// Threads: none; the channel's owner serializes. Invariants: hands out no address outside of what
/// the peer announced; `find` answers from no area, and `find_area` from nothing else.
class remote_region {
public:
  remote_region() = default;
  /// A region of which no chunk is registered yet. @pre well_formed(answer)
  explicit remote_region(const verbs_answer& answer) : announced_(answer) {}

  /// Adds a chunk that the peer has registered. False for a chunk that the protocol does not allow.
  bool add(const region_chunk& chunk);
  /// Whether every chunk of the peer's pool is registered; areas do not count. @pre the peer serves
  /// a pool
  bool complete() const noexcept { return chunks_.size() == announced_.chunks; }

  /// Remote address of the page's first byte; nothing when slot and length do not lie in the pool.
  std::optional<std::uint64_t> page_address(slot_id slot,
                                            std::uint32_t length_bytes) const noexcept;
  /// Remote address of the page's byte at `offset`, in its slot or in its rows; nothing when the
  /// slot and length do not lie in the pool, or the table has no such lease.
  std::optional<std::uint64_t> byte_address(const page_read& page,
                                            std::uint32_t offset) const noexcept;
  /// Remote address of the entry of the slot, or of the lease. @pre `byte_address` returned an
  /// address for the slot
  std::uint64_t entry_address(slot_id slot) const noexcept;

  struct readable {
    std::uint32_t rkey = 0;
    std::uint64_t bytes = 0; ///< Bytes from the asked address on that have the key `rkey`.
  };
  /// The memory that can be READ from the remote `address` on; nothing when its chunk is not
  /// registered.
  std::optional<readable> find(std::uint64_t address) const noexcept;
  /// Remote address of the byte at `offset` from the begin of the lowest area; no memory's when
  /// there is no area.
  std::uint64_t area_address(std::uint64_t offset) const noexcept;
  /// What `find` says for memory of the pool, for memory of the areas beside it.
  std::optional<readable> find_area(std::uint64_t address) const noexcept;

private:
  /// Chunks that are registered, ordered by address; they do not overlap.
  using chunk_list = std::vector<region_chunk>;
  static bool insert(const region_chunk& chunk, chunk_list& into);
  static std::optional<readable> find_in(const chunk_list& chunks, std::uint64_t address) noexcept;

  verbs_answer announced_;
  chunk_list chunks_; ///< Chunks of the pool's region, or of memory under leases.
  chunk_list areas_;
};

} // namespace peercache::rdma
