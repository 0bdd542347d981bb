#pragma once

#include "common/result.hpp"
#include "rdma/verbs/memory_region.hpp"
#include "rdma/verbs/served_chunks.hpp"
#include "rdma/verbs/verbs_protocol.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace peercache::rdma {

/// Where a region of memory is cut into chunks: at multiples of `chunk_bytes`, counted from the
/// huge page that the region begins in, so that no huge page belongs to two chunks.
class chunk_plan {
public:
  static constexpr std::uint64_t unit_bytes = 2u << 20;

  /// Plans chunks of `wanted_bytes`, or of more when there would be too many of them. Errors:
  /// `invalid_argument` for a size that is not a multiple of 2 MiB, or when the device does not
  /// take chunks (`device_bytes_max`) that are large enough.
  static result<chunk_plan> make(std::span<std::byte> region, std::uint64_t wanted_bytes,
                                 std::uint64_t device_bytes_max);

  std::uint32_t chunks() const noexcept { return chunks_; }
  std::uint64_t chunk_bytes() const noexcept { return chunk_bytes_; }
  std::span<std::byte> region() const noexcept { return region_; }
  /// The memory of one chunk. @pre index < chunks()
  std::span<std::byte> part(std::uint32_t index) const noexcept;

private:
  std::span<std::byte> region_;
  /// Bytes of the region's first huge page that lie before the region.
  std::uint64_t lead_bytes_ = 0;
  std::uint64_t chunk_bytes_ = 0;
  std::uint32_t chunks_ = 0;
};

/// The plan for memory that a device is to serve: with windows no chunk is longer than one of them
/// can be. Errors: those of chunk_plan::make; `incompatible` when only windows are in the way.
result<chunk_plan> plan_for(const verbs::device& on, std::span<std::byte> memory,
                            std::uint64_t wanted_bytes, verbs::region_use use);

struct region_progress {
  std::uint32_t chunks = 0;
  std::uint32_t registered = 0;
  std::uint32_t failed = 0;
  std::uint64_t registered_bytes = 0;
  std::string failure; ///< Text of the first registration that failed; empty when none has.
};

/// Registers a pool, or a table of leases, with one rail's device, chunk by chunk, and keeps the
/// regions. Threads: all methods may be called from any; several threads may run `register_next` at
/// a time. The mutex guards the lists only and is taken once or twice per chunk, never while the
/// device works. Ownership: the memory and the device outlive this object, and the regions end with
/// it. Errors: a chunk that cannot be registered is counted and stays as it is; all others are
/// served.
class region_registry {
public:
  struct callbacks {
    /// Called when a chunk is done (registered or not), with the number of done chunks, which grows
    /// from call to call, and the number of all chunks. One call at a time. Must not call back into
    /// this object.
    std::function<void(std::uint32_t done, std::uint32_t total)> on_progress;
    /// Called when a chunk is done, from the thread that registered it; several calls may run at a
    /// time.
    std::function<void()> on_done;
    /// Called with the reason when a chunk could not be registered; only for the first such chunk,
    /// because several have one cause. One call at a time. Must not call back into this object.
    std::function<void(const std::string& why)> on_failure;
  };

  /// @param use `remote_read` or `windows`
  region_registry(const verbs::device& on, const chunk_plan& plan, callbacks tell,
                  verbs::region_use use = verbs::region_use::remote_read);

  /// Registers the next chunk, in the order of the pool. Returns false when every chunk has been
  /// begun.
  bool register_next();

  /// Appends the chunks that were registered since the last call to `to`. Returns whether there was
  /// such a chunk.
  bool take_registered(served_chunks& to);

  std::uint32_t chunks() const noexcept { return plan_.chunks(); }
  region_progress progress() const;

private:
  void note(std::uint32_t index, result<verbs::memory_region> made);

  // Members that stay constant after construction.
  const verbs::device& device_;
  const chunk_plan plan_;
  const callbacks tell_;
  const verbs::region_use use_;

  // Members that all threads share.
  std::atomic<bool> has_news_{false};
  mutable std::mutex mutex_;        ///< Guards `work_` and the members after it.
  std::vector<std::uint32_t> work_; ///< Indexes of the chunks to register, the next one last.
  std::vector<verbs::memory_region> regions_; ///< Registered chunks, by index.
  served_chunks fresh_;
  std::uint32_t left_; ///< Chunks that are not done.
  region_progress progress_;
};

} // namespace peercache::rdma
