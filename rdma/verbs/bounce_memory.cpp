#include "rdma/verbs/bounce_memory.hpp"

#include "common/assert.hpp"

namespace peercache::rdma {

result<std::unique_ptr<bounce_memory>> bounce_memory::create(const verbs::device& on,
                                                             std::size_t bytes) {
  const auto blocks = bytes / block_bytes;
  PEERCACHE_ASSERT(blocks > 0);
  std::unique_ptr<bounce_memory> made{new bounce_memory};
  const auto all_bytes = blocks * block_bytes + discard_bytes;
  made->memory_ = std::make_unique<std::byte[]>(all_bytes);
  auto region = verbs::memory_region::register_memory(on, {made->memory_.get(), all_bytes},
                                                      verbs::region_use::local_write);
  if (!region)
    return region.error();
  made->region_ = std::move(*region);
  made->blocks_ = blocks;
  made->free_.reserve(blocks);
  for (auto block = static_cast<std::uint32_t>(blocks); block-- > 0;)
    made->free_.push_back(block);
  return made;
}

std::optional<std::uint32_t> bounce_memory::take() noexcept {
  if (free_.empty())
    return std::nullopt;
  const auto block = free_.back();
  free_.pop_back();
  return block;
}

} // namespace peercache::rdma
