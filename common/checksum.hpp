#pragma once

#include "common/copy_kernels.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace peercache {

/// The checksum of a page whose XXH3-64 is `digest`. In every field for a checksum 0 means that
/// there is none, so the one digest in 2^64 that is 0 counts as 1, for writers and readers alike.
constexpr std::uint64_t checksum_from(std::uint64_t digest) noexcept {
  return digest != 0 ? digest : 1;
}

/// XXH3-64 of `bytes`, unseeded, never 0 (`checksum_from`). Threads: any. The instruction set is
/// chosen at run time.
std::uint64_t checksum_of(std::span<const std::byte> bytes) noexcept;

/// The checksum of bytes that arrive in pieces; equals `checksum_of` over all of them.
/// Threads: one at a time. Size: about 1.2 KiB, no allocation.
class checksum_stream {
public:
  checksum_stream() noexcept;
  /// Makes a stream with the kernels of one instruction set, for tests.
  explicit checksum_stream(const detail::copy_kernels& kernels) noexcept;

  void reset() noexcept;
  void update(std::span<const std::byte> bytes) noexcept;
  /// Takes `from` into the checksum and copies it to `to` in the same pass, without a fence: see
  /// `copy_part`.
  void copy_and_update(std::span<std::byte> to, std::span<const std::byte> from) noexcept;
  std::uint64_t digest() const noexcept;

private:
  std::byte* held() noexcept { return window_ + detail::stripe_bytes; }
  std::size_t held_bytes() const noexcept;
  void take(std::byte* to, std::span<const std::byte> from) noexcept;
  void take_blocks(std::byte* to, std::span<const std::byte> from) noexcept;
  void hold(std::byte* to, std::span<const std::byte> bytes) noexcept;
  void keep_last_stripe(const std::byte* end) noexcept;

  detail::xxh3_accumulators state_;
  const detail::copy_kernels* kernels_;
  std::uint64_t total_bytes_;
  /// One stripe, then the held block: the newest bytes, which may turn out to be the input's last
  /// block. The digest needs the stripe that came before the held block. The held block has 1 ..
  /// block_bytes bytes, and none before the first `update`; only a further byte shows that a full
  /// block is not the last.
  std::byte window_[detail::stripe_bytes + detail::block_bytes];
};

} // namespace peercache
