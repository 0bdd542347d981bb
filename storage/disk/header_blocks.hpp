#pragma once

#include "storage/disk/record.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

namespace peercache::storage {

/// The store's own memory, in which the header block of each write lies as long as the disk reads
/// it. It grows to what was ever needed at a time.
/// Threads: one. Invariant: behind the header a block has zeros.
class header_blocks {
public:
  /// A block with this header, which is sealed here.
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
