#pragma once

#include "common/assert.hpp"
#include "storage/pool_header.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace peercache::storage {

/// What a pool's owner leaves to the next owner, at `note_offset` of the pool's shared memory; bump
/// `pool_layout_version` with any change. All zero: there is no note. Its bytes:
///
///   offset  bytes  field
///        0      4  length  number of bytes of the text; 0xffffffff while a text is being written
///        4   4028  text
struct note_block {
  std::atomic<std::uint32_t> length;
  char text[4028];
};
inline constexpr std::uint32_t note_offset = epoch_block_offset + sizeof(epoch_block);
static_assert(note_offset % 16 == 0 && note_offset + sizeof(note_block) == pool_header_bytes);

/// A view of a pool's note_block. Threads: those of the pool's owner, one at a time.
class pool_note {
public:
  static constexpr std::size_t bytes_max = sizeof(note_block::text);

  explicit pool_note(note_block& block) noexcept : block_(&block) {}

  /// The text of the note; nothing when its writer died while it wrote.
  std::optional<std::string> read() const {
    const auto length = block_->length.load(std::memory_order_acquire);
    if (length > bytes_max)
      return std::nullopt;
    return std::string(block_->text, length);
  }
  /// @pre `text` has no more than `bytes_max` bytes
  void write(std::string_view text) noexcept {
    PEERCACHE_ASSERT(text.size() <= bytes_max);
    block_->length.store(0xffffffff, std::memory_order_seq_cst);
    // A node that dies has done what stands before in the program, if the compiler keeps the order.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    std::memcpy(block_->text, text.data(), text.size());
    block_->length.store(static_cast<std::uint32_t>(text.size()), std::memory_order_seq_cst);
  }

private:
  note_block* block_;
};

} // namespace peercache::storage
