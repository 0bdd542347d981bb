#pragma once

#include "common/assert.hpp"
#include "rdma/verbs/memory_region.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace peercache::rdma {

/// Registered blocks of memory for READs whose destination is not registered: such a READ fills a
/// block, from which its bytes are copied to the destination. A further piece of memory takes bytes
/// that nobody wants; READs of all channels overwrite it at any time. Threads: the rail's.
/// Ownership: a block belongs to its taker from `take` to `give_back`; while a READ into the block
/// may still be on its way, the queue pair is destroyed before `give_back`.
class bounce_memory {
public:
  static constexpr std::uint32_t block_bytes = 128u << 10;
  static constexpr std::uint32_t discard_bytes = 4096;

  /// Allocates and registers `bytes`, rounded down to whole blocks. @pre bytes >= block_bytes
  static result<std::unique_ptr<bounce_memory>> create(const verbs::device& on, std::size_t bytes);

  std::optional<std::uint32_t> take() noexcept;
  void give_back(std::uint32_t block) noexcept {
    PEERCACHE_ASSERT(block < blocks_ && free_.size() < blocks_); // Each block is given back once.
    free_.push_back(block);
  }

  std::byte* address(std::uint32_t block) noexcept {
    return memory_.get() + std::size_t{block} * block_bytes;
  }
  /// The first of `discard_bytes` bytes that nobody reads.
  std::byte* discard() noexcept { return memory_.get() + blocks_ * block_bytes; }
  std::uint32_t local_key() const noexcept { return region_.local_key(); }
  std::size_t free_blocks() const noexcept { return free_.size(); }

private:
  bounce_memory() = default;

  std::unique_ptr<std::byte[]> memory_;
  verbs::memory_region region_; ///< Registration of `memory_`; ends before the memory does.
  std::size_t blocks_ = 0;
  std::vector<std::uint32_t> free_;
};

} // namespace peercache::rdma
