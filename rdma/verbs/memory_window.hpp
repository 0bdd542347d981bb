#pragma once

#include "common/result.hpp"

#include <cstdint>
#include <infiniband/verbs.h>
#include <memory>
#include <mutex>
#include <unordered_set>
#include <utility>

namespace peercache::rdma::verbs {

class queue_pair;
class region_windows;

/// Whether a key is surely gone after the kernel's answer to the call that ends its window or
/// region: the call succeeded, or the device itself is gone. A region with a window left is
/// answered EBUSY or EINVAL, depending on the driver.
bool is_revoked(int error_number) noexcept;

/// The key of one queue pair to one region: a memory window of type 2B over the whole region, which
/// lets the other end of that queue pair READ and do nothing else. No other queue pair is answered
/// under this key, and nobody after the window has ended. Threads: as region_windows. Ownership:
/// the window ends with this object, or with its region if that ends first; it ends before its
/// queue pair does.
class memory_window {
public:
  memory_window() = default;
  memory_window(memory_window&& other) noexcept;
  memory_window& operator=(memory_window&& other) noexcept;
  ~memory_window();

  /// The key with which the other end READs, once the binding has completed.
  std::uint32_t remote_key() const noexcept { return remote_key_; }

private:
  friend class region_windows;
  memory_window(std::shared_ptr<region_windows> of, ibv_mw* window, std::uint32_t key) noexcept
      : of_(std::move(of)), window_(window), remote_key_(key) {}

  std::shared_ptr<region_windows> of_;
  ibv_mw* window_ = nullptr;
  std::uint32_t remote_key_ = 0;
};

/// The windows of one region. Devices refuse to deregister a region that has a window, so all of
/// them end before the region does. Threads: any, but `bind` posts to the queue pair and so belongs
/// to the device's owner; the mutex is held while the device makes a window or ends a few.
/// Ownership: the region is lent until `close`.
class region_windows : public std::enable_shared_from_this<region_windows> {
public:
  /// The longest window: more is refused by mlx5's library when it is bound.
  static constexpr std::uint64_t bytes_max = std::uint64_t{1} << 31;

  /// @param address of the region's first byte, as work requests name it
  region_windows(ibv_mr* region, std::uint64_t address) noexcept
      : region_(region), address_(address) {}
  region_windows(const region_windows&) = delete;
  region_windows& operator=(const region_windows&) = delete;

  /// Makes a window and posts its binding as a signalled work request of this id. The key works
  /// when that has completed. Errors: `not_found` after `close`; `out_of_memory` when the device
  /// has no more windows; `io_failed` when it takes no work.
  result<memory_window> bind(queue_pair& to, std::uint64_t wr_id);
  /// Ends all windows; none is made afterwards.
  void close() noexcept;

private:
  friend class memory_window;
  void end(ibv_mw* window) noexcept;
  bool end_slice() noexcept;

  std::mutex mutex_;                    ///< Guards the members after it.
  ibv_mr* region_;                      ///< Null after `close`.
  const std::uint64_t address_;         ///< Constant.
  std::unordered_set<ibv_mw*> windows_; ///< Windows that have not ended.
};

} // namespace peercache::rdma::verbs
