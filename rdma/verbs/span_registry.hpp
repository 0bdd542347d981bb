#pragma once

#include "common/result.hpp"
#include "rdma/device_memory.hpp"
#include "rdma/verbs/memory_region.hpp"
#include "rdma/verbs/served_chunks.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <vector>

namespace peercache::rdma {

/// Memory that one rail lets others READ and that is added while it serves: memory under leases,
/// whose spans come and go, or the areas beside a pool, which stay. Threads: `add` and `remove`
/// any; `has_news` and `take` the rail's. The mutex guards the lists only, never while the device
/// works. Ownership: the memory is lent from `add` to `remove`, the device for the lifetime of this
/// object. Errors: `refused` for memory that overlaps a span, or for too many chunks; all other
/// errors are memory_region's. After an error nothing of the span is served.
class span_registry {
public:
  /// @param kind what the chunks are announced as
  /// @param use `remote_read` or `windows`
  /// @param tell called when there is something to `take`, from the thread that called `add` or
  /// `remove`
  span_registry(const verbs::device& on, chunk_kind kind, std::uint32_t chunks_max,
                std::uint64_t chunk_bytes, verbs::region_use use, std::function<void()> tell)
      : device_(on), kind_(kind), chunks_max_(chunks_max), chunk_bytes_(chunk_bytes), use_(use),
        tell_(std::move(tell)) {}

  /// Registers the memory, which takes a few milliseconds for a gigabyte that was touched before,
  /// and longer for memory that was not.
  /// @param device the GPU: memory that it holds is registered by its dmabuf where that is
  /// possible, else by its address; null: the span is host memory
  result<void> add(std::span<std::byte> memory, device_memory* device = nullptr);
  /// Ends the registration of the span that begins at `begin`, and all windows to it: when this
  /// returns, the device no longer reads the span. False when no span begins there.
  bool remove(const std::byte* begin);

  bool has_news() const noexcept { return has_news_.load(std::memory_order_acquire); }
  /// Takes chunks that were removed since the last call out of `announced`, and appends chunks that
  /// were added. Returns whether a chunk that had been announced was removed.
  bool take(served_chunks& announced);

private:
  struct served_span {
    std::span<std::byte> memory;
    /// Regions of the span's chunks; empty while the chunks are being registered.
    std::vector<verbs::memory_region> regions;
  };

  result<void> reserve(std::span<std::byte> memory, std::uint32_t chunks);
  void give_up(const std::byte* begin, std::uint32_t chunks);

  // Members that stay constant after construction.
  const verbs::device& device_;
  const chunk_kind kind_;
  const std::uint32_t chunks_max_;
  const std::uint64_t chunk_bytes_;
  const verbs::region_use use_;
  const std::function<void()> tell_;

  // Members that all threads share.
  std::atomic<bool> has_news_{false};
  std::mutex mutex_; ///< Guards the members after it.
  std::vector<served_span> spans_;
  std::uint32_t chunks_ = 0; ///< Chunks of all spans, those being registered included.
  served_chunks fresh_;
  /// Addresses of chunks that `take` has announced and that were removed since.
  std::vector<std::uint64_t> gone_;
};

} // namespace peercache::rdma
