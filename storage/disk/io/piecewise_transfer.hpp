#pragma once

#include "storage/disk/io/disk_io.hpp"

#include <cerrno>
#include <cstdint>
#include <optional>

namespace peercache::storage {

/// A request that the kernel may do in pieces, and how far it is.
class piecewise_transfer {
public:
  explicit piecewise_transfer(const disk_request& request = {}) noexcept : request_(request) {}

  const disk_request& request() const noexcept { return request_; }
  /// The block that still goes before `memory`, or none.
  std::byte* head() const noexcept { return done_bytes_ == 0 ? request_.head : nullptr; }
  std::byte* memory() const noexcept { return request_.memory + done_of_memory(); }
  /// Bytes of `memory` that are left to transfer.
  std::uint32_t bytes() const noexcept { return request_.bytes - done_of_memory(); }
  std::uint64_t offset_bytes() const noexcept { return request_.offset_bytes + done_bytes_; }

  /// @param moved What the kernel answered: bytes, or an errno, negative.
  /// @return The completion's error; nothing when the rest is still to be done.
  std::optional<int> on_result(std::int64_t moved) noexcept {
    if (moved == -EINTR || moved == -EAGAIN)
      return ++refusals_ < refusals_most ? std::nullopt : std::optional<int>(EIO);
    if (moved < 0)
      return static_cast<int>(-moved);
    if (is_sync(request_.what))
      return 0;
    // O_DIRECT goes on at a block border only. No whole block: that was the end of the file.
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
  std::uint32_t done_bytes_ = 0; ///< Whole blocks, the head included.
  std::uint32_t refusals_ = 0;
};

} // namespace peercache::storage
