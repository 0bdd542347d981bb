#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace peercache {

/// XXH3-64 of `bytes`, unseeded. Threads: any. The instruction set is chosen at run time.
std::uint64_t checksum_of(std::span<const std::byte> bytes) noexcept;

/// XXH3-64 of bytes that arrive in pieces; equals `checksum_of` of the whole.
/// Threads: one at a time. Size: about 600 bytes, no allocation.
class checksum_stream {
public:
  checksum_stream() noexcept { reset(); }
  void reset() noexcept;
  void update(std::span<const std::byte> bytes) noexcept;
  std::uint64_t digest() const noexcept;

private:
  alignas(64) std::byte state_[640];
};

} // namespace peercache
