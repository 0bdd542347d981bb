#pragma once

#include "common/page_key.hpp"

#include <cstddef>
#include <deque>
#include <mutex>
#include <span>
#include <unordered_set>
#include <vector>

namespace peercache::python {

/// The pages that a client has moved lately: what `clear` of SGLang's backend withdraws. Each once,
/// the oldest first; beyond `most` the oldest are forgotten. Threads: any.
class moved_pages {
public:
  explicit moved_pages(std::size_t most) : most_(most) {}

  void add(std::span<const page_key> keys);

  /// So many of the oldest, or all; they are forgotten.
  std::vector<page_key> take(std::size_t count);

  std::size_t size() const;

private:
  const std::size_t most_;
  mutable std::mutex mutex_;
  std::deque<page_key> oldest_first_;
  std::unordered_set<page_key> known_;
};

} // namespace peercache::python
