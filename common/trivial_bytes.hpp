/// Values as they lie in memory, read from bytes of any alignment.
#pragma once

#include <cstddef>
#include <cstring>
#include <type_traits>

namespace peercache {

/// @pre sizeof(T) bytes can be read.
template <class T>
T read_as(const std::byte* bytes) noexcept {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  std::memcpy(static_cast<void*>(&value), bytes, sizeof value);
  return value;
}

} // namespace peercache
