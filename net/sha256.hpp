#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace peercache::net {

/// SHA-256, for digests that other programs make as well; PeerCache's own digests are BLAKE3. One
/// object makes any number of digests, one after the other.
///
/// Threads: one at a time. Errors: none; without memory the process ends.
class sha256 {
public:
  using digest = std::array<std::uint8_t, 32>;

  sha256();
  ~sha256();
  sha256(const sha256&) = delete;
  sha256& operator=(const sha256&) = delete;

  /// Adds bytes to the digest that is being made.
  void add(std::span<const std::uint8_t> bytes) noexcept;
  /// Returns the digest of all bytes that were added since the last `finish`.
  digest finish() noexcept;

private:
  struct state;
  std::unique_ptr<state> state_;
};

} // namespace peercache::net
