#pragma once

#include "net/socket.hpp"
#include "rdma/memory_rows.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <shared_mutex>
#include <span>
#include <vector>

namespace peercache::rdma {

/// Memory of a device (a GPU), which the processor cannot load from or store to, though it has
/// addresses. Bytes of device memory that go through sockets are copied through host memory, a
/// bounded piece at a time; a NIC reaches device memory by dmabuf, or by its address where the
/// kernel knows the address.
///
/// Threads: any; `holds` takes a shared lock. Ownership: the memory is lent from `add` to `remove`.
/// Errors: bytes of a copy that fails do not count, and the connection for which the copy was made
/// ends.
class device_memory {
public:
  virtual ~device_memory() = default;

  /// Notes this memory if it is device memory. Returns whether it is.
  bool add(std::span<std::byte> memory);
  void remove(const std::byte* begin);
  /// Whether the address lies in memory that `add` has noted.
  bool holds(const std::byte* address) const noexcept;
  /// Whether the first row begins in memory that `add` has noted.
  bool holds(const memory_rows& rows) const noexcept {
    return rows.rows != 0 && holds(rows.begin_of(0));
  }

  /// Copies the rows, one after the other, to host memory; returns when the copy is done.
  virtual bool copy_out(std::byte* host, const memory_rows& rows) noexcept = 0;
  /// Copies host memory to the device; returns when the copy is done.
  virtual bool copy_in(std::byte* device, std::span<const std::byte> host) noexcept = 0;

  /// A dmabuf of the memory, for devices that read and write the memory themselves.
  struct exported {
    net::unique_fd dmabuf;
    std::uint64_t offset_bytes = 0; ///< Offset in the dmabuf at which the memory begins.
  };
  /// Exports the memory as a dmabuf. Nothing where the driver exports none: the address itself may
  /// be registered then.
  virtual std::optional<exported> export_dmabuf(std::span<std::byte> memory) = 0;

protected:
  virtual bool is_of_device(const std::byte* address) const = 0;

private:
  mutable std::shared_mutex lock_;
  /// Memory that `add` has noted, by address; guarded by `lock_`.
  std::vector<std::span<std::byte>> known_;
};

} // namespace peercache::rdma
