#pragma once

#include "client/values/pages.hpp"
#include "common/checksum.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace peercache::client {

/// Copies one page, part by part, and gives up when the deadline passes or the thread is
/// interrupted: a page of 64 MiB takes tens of milliseconds. The clock is looked at every
/// `look_bytes`, so a smaller page is copied whole; a caller with many pages looks at the clock
/// between them. Threads: one object per page. No fence: `copy_fence` comes after the last page.
class timed_copy {
public:
  using clock = deadline (*)();
  static constexpr std::size_t look_bytes = 4u << 20;

  /// @param digest whether the checksum of the copied bytes is wanted
  timed_copy(deadline until, bool digest, clock now = &std::chrono::steady_clock::now);

  /// False when the copy was given up: some of the bytes are not copied, and no more will be.
  bool copy(std::span<std::byte> to, std::span<const std::byte> from) noexcept;

  /// XXH3 of all copied bytes. @pre the constructor's `digest` was true
  std::uint64_t digest() const noexcept { return stream_->digest(); }

private:
  const deadline until_;
  const clock now_;
  std::optional<checksum_stream> stream_;
  std::size_t since_look_ = 0;
};

} // namespace peercache::client
