#pragma once

#include "rdma/data_plane.hpp"

#include <array>
#include <atomic>
#include <bit>
#include <tuple>

namespace peercache::rdma {

/// The counters of a data plane, for threads that do not run it. Each counter is right by itself;
/// two counters may be of different moments. Threads: the plane's thread calls `publish`, any
/// thread may call `read`.
class published_stats {
public:
  void publish(const data_plane_stats& stats) noexcept {
    const auto words = std::bit_cast<words_type>(stats);
    for (std::size_t i = 0; i < words.size(); ++i)
      words_[i].store(words[i], std::memory_order_relaxed);
  }

  data_plane_stats read() const noexcept {
    words_type words;
    for (std::size_t i = 0; i < words.size(); ++i)
      words[i] = words_[i].load(std::memory_order_relaxed);
    return std::bit_cast<data_plane_stats>(words);
  }

private:
  using words_type = std::array<std::uint64_t, sizeof(data_plane_stats) / sizeof(std::uint64_t)>;
  static_assert(sizeof(words_type) == sizeof(data_plane_stats));

  std::array<std::atomic<std::uint64_t>, std::tuple_size_v<words_type>> words_{};
};

} // namespace peercache::rdma
