#pragma once

#include "storage/disk/record.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

namespace peercache::storage {

/// Memory for the header block of each write of a store, which the disk reads until the write's
/// transfers have completed. It grows to the most blocks that were ever needed at a time.
/// Threads: one. Invariant: behind the header a block has zeros.
class header_blocks {
public:
  /// Seals the header and returns a block that begins with it; the block is the caller's until
  /// `give_back`.
  std::byte* take(record_header& header);
  void give_back(std::byte* block) { free_.push_back(block); }

private:
  void grow();

  struct deleter {
    void operator()(std::byte* memory) const noexcept { std::free(memory); }
  };
  std::vector<std::unique_ptr<std::byte, deleter>> memory_;
  std::vector<std::byte*> free_;
};

} // namespace peercache::storage
