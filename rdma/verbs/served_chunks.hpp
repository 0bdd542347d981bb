#pragma once

#include "rdma/verbs/memory_region.hpp"
#include "rdma/verbs/verbs_protocol.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace peercache::rdma {

/// The chunks of memory that a rail serves, in the order in which its readers are told of them.
/// Threads: none. Chunks do not overlap, so that the address of its first byte names a chunk.
class served_chunks {
public:
  void add(std::uint32_t index, const verbs::memory_region& region,
           chunk_kind kind = chunk_kind::region) {
    region_chunk chunk;
    chunk.kind = kind;
    chunk.index = index;
    chunk.address = region.address();
    chunk.bytes = region.bytes();
    chunk.rkey = region.windows() == nullptr ? region.remote_key() : 0;
    chunks_.push_back(chunk);
    windows_.push_back(region.windows());
  }
  void add(const served_chunks& more) {
    chunks_.insert(chunks_.end(), more.chunks_.begin(), more.chunks_.end());
    windows_.insert(windows_.end(), more.windows_.begin(), more.windows_.end());
  }
  /// Takes the chunk that begins at this address out; false when there is none.
  bool remove(std::uint64_t address) {
    const auto found =
        std::find_if(chunks_.begin(), chunks_.end(),
                     [address](const region_chunk& chunk) { return chunk.address == address; });
    if (found == chunks_.end())
      return false;
    windows_.erase(windows_.begin() + (found - chunks_.begin()));
    chunks_.erase(found);
    return true;
  }
  void clear() noexcept {
    chunks_.clear();
    windows_.clear();
  }

  /// How many bytes the chunks of a kind have together, and how many there are.
  std::pair<std::uint32_t, std::uint64_t> of_kind(chunk_kind kind) const noexcept {
    std::pair<std::uint32_t, std::uint64_t> sum{0, 0};
    for (const auto& chunk : chunks_)
      if (chunk.kind == kind) {
        ++sum.first;
        sum.second += chunk.bytes;
      }
    return sum;
  }
  std::size_t size() const noexcept { return chunks_.size(); }
  bool empty() const noexcept { return chunks_.empty(); }
  /// The chunks as readers are told of them. Where a chunk has `windows` its key is 0 here, since
  /// each reader is told that of its own window.
  std::span<const region_chunk> chunks() const noexcept { return chunks_; }
  /// The windows of the chunk at this place; null when its region serves without windows.
  verbs::region_windows* windows(std::size_t at) const noexcept { return windows_[at].get(); }

private:
  std::vector<region_chunk> chunks_;
  /// The windows of each of `chunks_`.
  std::vector<std::shared_ptr<verbs::region_windows>> windows_;
};

} // namespace peercache::rdma
