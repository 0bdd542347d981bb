#pragma once

#include "rdma/device_memory.hpp"
#include "rdma/verbs/device.hpp"
#include "rdma/verbs/memory_window.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

namespace peercache::rdma::verbs {

/// The rights that a region gives. No kind lets the other side write: nothing of a pool is ever
/// remotely writable, and a destination is written by its own queue pair only.
enum class region_use : std::uint8_t {
  /// A region that is served, of a pool or under leases: REMOTE_READ and no other right.
  remote_read,
  /// A region that is served through memory windows alone: MW_BIND and no other right, so that its
  /// own key opens nothing. The memory has to be mapped writable, as for every region with MW_BIND.
  windows,
  local_write ///< A destination of READs: LOCAL_WRITE and no other right.
};

/// Memory that is registered with a device.
/// Threads: `register_*` and the destructor from any thread (verbs allows it). Ownership: the
/// memory outlives the region. Errors: when memlock is too small, the message says the limit, the
/// need and the line that fixes it; `incompatible` where the kernel or provider has no dmabuf.
class memory_region {
public:
  static result<memory_region> register_memory(const device& on, std::span<std::byte> memory,
                                               region_use use);
  /// Registers device memory (a GPU's) by its dmabuf descriptor, with `ibv_reg_dmabuf_mr`.
  /// `address` is what READs name as the memory's first byte. The use `windows` is `incompatible`
  /// with dmabufs.
  static result<memory_region> register_dmabuf(const device& on, int dmabuf_fd,
                                               std::uint64_t offset_bytes, std::uint64_t bytes,
                                               std::uint64_t address, region_use use);

  /// Registers memory of either kind: by its dmabuf if `gpu` holds and exports it and `use` is not
  /// `windows`, else by its address. @param gpu null: the memory is host memory
  static result<memory_region> register_with(const device& on, std::span<std::byte> memory,
                                             device_memory* gpu, region_use use);

  memory_region() = default;
  memory_region(memory_region&& other) noexcept
      : region_(std::exchange(other.region_, nullptr)), address_(other.address_),
        windows_(std::move(other.windows_)) {}
  memory_region& operator=(memory_region&& other) noexcept {
    std::swap(region_, other.region_);
    std::swap(address_, other.address_);
    std::swap(windows_, other.windows_);
    return *this;
  }
  ~memory_region() { reset(); }

  /// Ends the region and, before it, its windows.
  void reset() noexcept;
  explicit operator bool() const noexcept { return region_ != nullptr; }
  std::uint32_t local_key() const noexcept { return region_->lkey; }
  std::uint32_t remote_key() const noexcept { return region_->rkey; }
  /// The address of the region's first byte, as work requests name it.
  std::uint64_t address() const noexcept { return address_; }
  std::uint64_t bytes() const noexcept { return region_->length; }
  /// The windows of a region that was registered for them; null for every other one.
  const std::shared_ptr<region_windows>& windows() const noexcept { return windows_; }

private:
  memory_region(ibv_mr* region, std::uint64_t address, region_use use);
  ibv_mr* region_ = nullptr;
  /// Address of the first byte; kept here, because libibverbs stores the offset in the `addr` of a
  /// dmabuf's region.
  std::uint64_t address_ = 0;
  std::shared_ptr<region_windows> windows_;
};

/// Text for a registration that failed with ENOMEM: why the memory could not be locked, and the
/// line that fixes it. `limit_bytes` is RLIMIT_MEMLOCK; RLIM_INFINITY means that this limit is not
/// the cause.
std::string memlock_advice(std::uint64_t need_bytes, std::uint64_t limit_bytes);
/// RLIMIT_MEMLOCK of this process in bytes.
std::uint64_t memlock_limit_bytes() noexcept;

} // namespace peercache::rdma::verbs
