#pragma once

#include "common/result.hpp"
#include "handoff/memory_range.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

namespace peercache::handoff {

/// The memory that a transfer worker has registered: no other memory of its process is ever read or
/// written for a peer. Threads: one owner. Errors: `invalid_argument` for memory that is not
/// `possible`, `refused` for memory that overlaps a registered range.
class registered_memory {
public:
  result<void> add(const memory_range& memory);
  /// Forgets the range that begins at this address and returns it; nothing when no range begins
  /// there.
  std::optional<memory_range> remove(std::uint64_t address);

  bool overlaps(const memory_range& memory) const noexcept;
  /// Whether all of the memory lies in one registered range. @pre memory.possible()
  bool covers(const memory_range& memory) const noexcept;
  std::size_t size() const noexcept { return ranges_.size(); }

private:
  std::map<std::uint64_t, std::uint64_t> ranges_; ///< Bytes of each range, by its address.
};

} // namespace peercache::handoff
