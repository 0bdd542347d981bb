#pragma once

#include "storage/disk/io/disk_io.hpp"

#include <cerrno>
#include <cstdint>
#include <optional>

namespace peercache::storage {

/// A request that the kernel may carry out in pieces, and how much of it is done.
class piecewise_transfer {
public:
  explicit piecewise_transfer(const disk_request& request = {}) noexcept : request_(request) {}

  const disk_request& request() const noexcept { return request_; }
  /// The head block when it is still to be transferred before `memory`; else null.
  std::byte* head() const noexcept { return done_bytes_ == 0 ? request_.head : nullptr; }
  std::byte* memory() const noexcept { return request_.memory + done_of_memory(); }
  /// Bytes of `memory` that are still to be transferred.
  std::uint32_t bytes() const noexcept { return request_.bytes - done_of_memory(); }
  std::uint64_t offset_bytes() const noexcept { return request_.offset_bytes + done_bytes_; }

  /// Takes the kernel's answer to the last piece.
  /// @param moved The number of bytes that were moved, or a negative errno.
  /// @return The error for the completion (0: done); nothing when another piece has to be
  /// transferred.
  std::optional<int> on_result(std::int64_t moved) noexcept {
    if (moved == -EINTR || moved == -EAGAIN)
      return ++refusals_ < refusals_most ? std::nullopt : std::optional<int>(EIO);
    if (moved < 0)
      return static_cast<int>(-moved);
    if (is_sync(request_.what))
      return 0;
    // O_DIRECT can go on at a block border only, so a part of a block does not count. If no whole
    // block was moved, the file has ended.
    const auto whole = static_cast<std::uint64_t>(moved) / disk_block_bytes * disk_block_bytes;
    if (whole == 0 || whole > bytes_to_move(request_) - done_bytes_)
      return EIO;
    done_bytes_ += static_cast<std::uint32_t>(whole);
    if (bytes() != 0)
      return std::nullopt;
    return 0;
  }

private:
  static constexpr std::uint32_t refusals_most = 64;

  std::uint32_t done_of_memory() const noexcept {
    const bool headed = request_.head != nullptr && done_bytes_ != 0;
    return done_bytes_ - (headed ? disk_block_bytes : 0);
  }

  disk_request request_;
  std::uint32_t done_bytes_ = 0; ///< Bytes transferred so far, in whole blocks, the head included.
  std::uint32_t refusals_ = 0;
};

} // namespace peercache::storage
