#include "storage/disk/header_blocks.hpp"

#include "common/assert.hpp"

#include <cstring>

namespace peercache::storage {

void header_blocks::grow() {
  constexpr std::size_t blocks = 32;
  constexpr auto bytes = blocks * disk_block_bytes;
  memory_.emplace_back(static_cast<std::byte*>(std::aligned_alloc(disk_block_bytes, bytes)));
  auto* first = memory_.back().get();
  PEERCACHE_ASSERT(first != nullptr);
  std::memset(first, 0, bytes);
  for (std::size_t i = blocks; i-- != 0;)
    free_.push_back(first + i * disk_block_bytes);
}

std::byte* header_blocks::take(record_header& header) {
  if (free_.empty())
    grow();
  auto* block = free_.back();
  free_.pop_back();
  seal(header);
  std::memcpy(block, &header, sizeof header);
  return block;
}

} // namespace peercache::storage
