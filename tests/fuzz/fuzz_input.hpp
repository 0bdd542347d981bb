#pragma once

#include "common/assert.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

/// The entry of a fuzz target, which libFuzzer calls again and again with other bytes. A target
/// returns 0; whatever aborts is a finding.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace peercache::fuzz {

/// The bytes of one input, taken from the front. Behind the end there are zeros.
class input {
public:
  input(const std::uint8_t* data, std::size_t size)
      : rest_(reinterpret_cast<const char*>(data), size) {}

  bool empty() const noexcept { return rest_.empty(); }
  std::string_view rest() const noexcept { return rest_; }

  std::string_view take(std::size_t bytes) noexcept {
    const auto taken = rest_.substr(0, bytes);
    rest_.remove_prefix(taken.size());
    return taken;
  }
  /// A value of any bytes. @param T trivially copyable
  template <class T>
  T value() noexcept {
    T out{};
    const auto bytes = take(sizeof(T));
    std::memcpy(static_cast<void*>(&out), bytes.data(), bytes.size());
    return out;
  }
  /// At most 65,535 bytes, whose number comes first.
  std::string_view piece() noexcept { return take(value<std::uint16_t>()); }

private:
  std::string_view rest_;
};

} // namespace peercache::fuzz
