#pragma once

#include "common/result.hpp"
#include "rdma/verbs/memory_region.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace peercache::rdma {

/// The memory of this process that one rail may READ into without a copy: the ranges that callers
/// registered. Threads: any. A sub-request works on a snapshot, which keeps its regions registered
/// until the sub-request is done. Ownership: the memory is the caller's, and outlives its
/// registration. Errors: overlapping ranges are refused; all other errors are memory_region's.
class destination_memory {
public:
  struct range {
    std::byte* begin = nullptr;
    std::size_t bytes = 0;
    std::shared_ptr<const verbs::memory_region> region;
  };
  /// All ranges at one moment, sorted by address.
  using snapshot = std::shared_ptr<const std::vector<range>>;

  explicit destination_memory(const verbs::device& on) : device_(on) {}

  /// Adds a range. @param device registers memory that it holds by a dmabuf; null: the range is
  /// host memory
  result<void> add(std::span<std::byte> memory, device_memory* device = nullptr);
  /// Removes the range that begins at `begin`; false when no range begins there.
  bool remove(const std::byte* begin);
  snapshot current() const;

  /// The local key for `bytes` bytes at `begin`; nothing when no single range holds all of them.
  static std::optional<std::uint32_t> key_of(const snapshot& ranges, const std::byte* begin,
                                             std::size_t bytes) noexcept;

private:
  result<void> insert(std::span<std::byte> memory, result<verbs::memory_region> made);

  const verbs::device& device_;
  mutable std::mutex lock_;
  /// All registered ranges; guarded by `lock_`.
  snapshot ranges_ = std::make_shared<const std::vector<range>>();
};

} // namespace peercache::rdma
