/// Reads trivially copyable values from bytes of any alignment, and appends them to bytes.
#pragma once

#include <cstddef>
#include <cstring>
#include <type_traits>
#include <vector>

namespace peercache {

/// Copies a value out of bytes of any alignment. @pre sizeof(T) bytes can be read
template <class T>
T read_as(const std::byte* bytes) noexcept {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  std::memcpy(static_cast<void*>(&value), bytes, sizeof value);
  return value;
}

template <class T>
void append_bytes(std::vector<std::byte>& out, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  out.insert(out.end(), bytes, bytes + sizeof value);
}

} // namespace peercache
