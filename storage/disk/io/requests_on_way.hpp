#pragma once

#include "common/assert.hpp"
#include "storage/disk/io/disk_io.hpp"

namespace peercache::storage {

/// Counts the requests that a `disk_io` has on its way and says whether the device takes one more.
/// Limits: `queue_depth` transfers, of which writes have `writing_bytes_max` bytes in total (or one
/// write has more), and `queue_depth` syncs. Threads: one at a time.
class requests_on_way {
public:
  explicit requests_on_way(std::uint32_t queue_depth) noexcept : queue_depth_(queue_depth) {}

  std::uint32_t queue_depth() const noexcept { return queue_depth_; }

  bool takes(const disk_request& request) const noexcept {
    if (is_sync(request.what))
      return syncs_ < queue_depth_;
    if (transfers_ == queue_depth_)
      return false;
    return request.what != disk_request::kind::write || writing_bytes_ == 0 ||
           writing_bytes_ + bytes_to_move(request) <= writing_bytes_max;
  }

  void add(const disk_request& request) noexcept {
    ++(is_sync(request.what) ? syncs_ : transfers_);
    if (request.what == disk_request::kind::write)
      writing_bytes_ += bytes_to_move(request);
  }

  void remove(const disk_request& request) noexcept {
    auto& count = is_sync(request.what) ? syncs_ : transfers_;
    PEERCACHE_ASSERT(count > 0);
    --count;
    if (request.what != disk_request::kind::write)
      return;
    PEERCACHE_ASSERT(writing_bytes_ >= bytes_to_move(request));
    writing_bytes_ -= bytes_to_move(request);
  }

private:
  std::uint32_t queue_depth_;
  std::uint32_t transfers_ = 0;
  std::uint32_t syncs_ = 0;
  std::uint64_t writing_bytes_ = 0;
};

} // namespace peercache::storage
