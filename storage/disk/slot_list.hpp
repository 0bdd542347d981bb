#pragma once

#include "common/assert.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace peercache::storage {

/// Keeps things under small numbers, which go into the tags of requests. The number of a thing that
/// was taken out is used again.
/// Threads: one.
template <class T>
class slot_list {
public:
  std::uint32_t add(T thing) {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(things_.size()));
      things_.emplace_back();
    }
    const auto number = free_.back();
    free_.pop_back();
    things_[number].emplace(std::move(thing));
    return number;
  }

  /// @pre a thing has this number
  T& operator[](std::uint32_t number) {
    PEERCACHE_ASSERT(number < things_.size() && things_[number]);
    return *things_[number];
  }

  /// Takes a thing out of the list. @pre a thing has this number
  T take(std::uint32_t number) {
    T gone = std::move((*this)[number]);
    things_[number].reset();
    free_.push_back(number);
    return gone;
  }

  template <class Visit>
  void for_each(Visit visit) {
    for (std::uint32_t number = 0; number < things_.size(); ++number)
      if (things_[number])
        visit(number, *things_[number]);
  }

  std::size_t size() const noexcept { return things_.size() - free_.size(); }
  bool empty() const noexcept { return size() == 0; }

private:
  std::vector<std::optional<T>> things_;
  std::vector<std::uint32_t> free_;
};

} // namespace peercache::storage
