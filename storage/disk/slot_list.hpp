#pragma once

#include "common/assert.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace peercache::storage {

/// Things with small numbers, which are used again. Numbers go into requests' tags.
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

  /// @pre the number is in use
  T& operator[](std::uint32_t number) {
    PEERCACHE_ASSERT(number < things_.size() && things_[number]);
    return *things_[number];
  }

  /// @pre the number is in use
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
