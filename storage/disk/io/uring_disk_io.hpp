#pragma once

#include "storage/disk/io/folder_disk_io.hpp"
#include "storage/disk/io/piecewise_transfer.hpp"
#include "storage/disk/io/requests_on_way.hpp"

#include <array>
#include <atomic>
#include <liburing.h>
#include <memory>
#include <optional>
#include <sys/uio.h>
#include <vector>

namespace peercache::storage {

/// A `disk_io` over one io_uring. Submitted requests go to the kernel in one batch at the next
/// `reap` or `wait`. Open files have a place in the ring's table; registered memory is pinned when
/// it is registered, and not again for each transfer.
class uring_disk_io final : public folder_disk_io {
public:
  /// Makes a ring for this folder; after success the folder is moved from. Errors: `refused`, with
  /// the reason, when the kernel has no io_uring for this process.
  static result<std::unique_ptr<uring_disk_io>> make(opened_folder& folder,
                                                     std::uint32_t queue_depth);
  ~uring_disk_io() override;

  std::string_view name() const noexcept override { return "io_uring"; }
  /// Registers memory as disk_io::register_memory says. Errors: `out_of_memory` when the process
  /// may not lock the memory that the ring needs.
  result<void> register_memory(std::span<std::byte> memory) override;
  bool submit(const disk_request& request) override;
  std::size_t reap(std::span<disk_completion> completions) override;
  void wait(std::chrono::nanoseconds at_most) override;
  void wake() noexcept override;
  std::uint32_t in_flight() const noexcept override {
    return static_cast<std::uint32_t>(flights_.size() - free_.size());
  }
  std::uint32_t queue_depth() const noexcept override { return on_way_.queue_depth(); }

private:
  /// A part of registered memory that is one buffer of the ring.
  struct buffer {
    std::byte* begin = nullptr;
    std::byte* end = nullptr;
    int index = 0;
  };

  uring_disk_io(opened_folder folder, std::uint32_t queue_depth, const io_uring& ring,
                owned_fd wake_fd);

  void on_open(disk_file file, int fd) override;
  void on_close(disk_file file) override;

  io_uring_sqe* next_entry();
  void prepare(std::uint32_t flight);
  void prepare_transfer(io_uring_sqe* entry, int file, std::uint32_t flight);
  void prepare_wake();
  const buffer* buffer_of(const std::byte* memory, std::uint32_t bytes) const;
  /// Takes a completion queue entry. Returns the request's completion when all pieces of it are
  /// done; nothing when another piece was started, or when the entry was the wake's.
  std::optional<disk_completion> settle(std::uint64_t user_data, std::int32_t moved);
  void drain();

  io_uring ring_;
  owned_fd wake_fd_;
  std::uint64_t wake_count_ = 0; ///< The ring reads the eventfd's count into this.
  bool wake_armed_ = false;
  bool woken_ = false;
  std::atomic<bool> wake_asked_{false};
  /// Files with lower handles have a place in the ring's table.
  std::uint32_t files_registered_ = 0;
  std::vector<buffer> buffers_; ///< Registered buffers, sorted by address.
  /// The requests on their way, by flight number: `queue_depth` transfers and as many syncs.
  std::vector<piecewise_transfer> flights_;
  /// For each flight, the two parts of a write with a head: the head and `memory`.
  std::vector<std::array<iovec, 2>> parts_;
  std::vector<std::uint32_t> free_;
  requests_on_way on_way_;
};

} // namespace peercache::storage
