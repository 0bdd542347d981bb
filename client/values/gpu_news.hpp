#pragma once

#include "common/page_key.hpp"

#include <cstdint>
#include <optional>
#include <span>

namespace peercache::client {

/// What an engine did with the blocks on its GPU, in this order; the keys are those under which the
/// engine sets their pages.
struct gpu_news {
  bool all_evicted = false; ///< The engine has emptied its GPU's cache.
  std::span<const page_key> evicted;
  std::span<const page_key> stored;
  /// The engine's rank of data parallelism, for all blocks that this client reports; nothing: the
  /// rank stays as it was.
  std::optional<std::uint32_t> rank = {};
};

} // namespace peercache::client
