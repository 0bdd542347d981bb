#pragma once

#include "common/assert.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

/// The entry point of a fuzz target, which libFuzzer calls again and again with different bytes.
/// Returns 0; an input for which it aborts is a finding.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace peercache::fuzz {

/// Reads values from the bytes of one input, one after another; after the end of the bytes it reads
/// zeros.
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
  /// Returns a value made of the next bytes, whatever they are. @param T trivially copyable
  template <class T>
  T value() noexcept {
    T out{};
    const auto bytes = take(sizeof(T));
    std::memcpy(static_cast<void*>(&out), bytes.data(), bytes.size());
    return out;
  }
  /// Returns the next piece: its length (two bytes, so at most 65,535) is read first.
  std::string_view piece() noexcept { return take(value<std::uint16_t>()); }

private:
  std::string_view rest_;
};

} // namespace peercache::fuzz
