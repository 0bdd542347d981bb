#pragma once

#include "common/page_key.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

namespace peercache::client {

/// Remembers which pages this process read from other hosts lately, and which of them it mirrored:
/// a page that is read twice within `window` is hot. Approximate: a page displaces another page of
/// the same cell. Threads: any. Memory: 8 bytes per cell.
class page_heat {
public:
  using time_point = std::chrono::steady_clock::time_point;

  static constexpr std::size_t cells = 1u << 15;
  static constexpr std::chrono::seconds window{60};
  static constexpr std::uint32_t hot_reads = 2;

  /// Counts one more read of the page from another host; returns the reads within the window.
  std::uint32_t count_read(const page_key& key, time_point now) noexcept;
  /// Notes that this process has given its host a copy of the page.
  void mark_mirrored(const page_key& key, time_point now) noexcept;
  bool is_mirrored(const page_key& key, time_point now) const noexcept;

private:
  /// One cell's 64 bits: tag 32 | seconds of the first read 24 | mirrored 1 | reads 7
  struct cell {
    std::uint32_t tag = 0;
    std::uint32_t seconds = 0;
    bool mirrored = false;
    std::uint32_t reads = 0;
  };
  static cell unpack(std::uint64_t bits) noexcept;
  static std::uint64_t pack(const cell& from) noexcept;
  static std::uint32_t tag_of(const page_key& key) noexcept;
  static std::uint32_t seconds_of(time_point now) noexcept;
  /// Returns the page's cell; empty if the cell belongs to another page or is too old.
  cell look(const page_key& key, time_point now) const noexcept;

  std::unique_ptr<std::array<std::atomic<std::uint64_t>, cells>> cells_ =
      std::make_unique<std::array<std::atomic<std::uint64_t>, cells>>();
};

} // namespace peercache::client
