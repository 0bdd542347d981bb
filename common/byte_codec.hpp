#pragma once

#include "common/assert.hpp"
#include "common/ids.hpp"

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace peercache {

static_assert(std::endian::native == std::endian::little, "numbers are copied as they lie");

/// Appends numbers and short texts to a string, for packets (`packet_wire_version`), views
/// (`view_format`), samples (`wire_version`), cleared spaces and workers (`handoff_wire_version`).
/// A text that exceeds its limit is the caller's fault and asserts.
class byte_writer {
public:
  explicit byte_writer(std::string& out) noexcept : out_(out) {}

  template <class T>
  void number(T value) {
    out_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void id(const incarnation& value) {
    number(value.high);
    number(value.low);
  }
  void short_text(std::string_view text) {
    PEERCACHE_ASSERT(text.size() <= 255);
    number(static_cast<std::uint8_t>(text.size()));
    out_.append(text);
  }
  void text(std::string_view text) { out_.append(text); }

private:
  std::string& out_;
};

/// Reads numbers and short texts back from bytes that anybody may have written. After the first
/// read beyond the end `ok` is false, and every further read gives zero or an empty text. Never
/// allocates memory for a length that the bytes do not have.
class byte_reader {
public:
  explicit byte_reader(std::string_view bytes) noexcept : rest_(bytes) {}

  template <class T>
  T number() noexcept {
    T value{};
    auto bytes = take(sizeof value);
    if (ok_)
      std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  incarnation id() noexcept {
    incarnation value;
    value.high = number<std::uint64_t>();
    value.low = number<std::uint64_t>();
    return value;
  }
  /// Reads a byte that is 0 or 1; any other value makes the read fail.
  bool boolean() noexcept {
    const auto value = number<std::uint8_t>();
    ok_ = ok_ && value <= 1;
    return value == 1;
  }
  std::string_view short_text() noexcept { return take(number<std::uint8_t>()); }
  std::string_view take(std::size_t bytes) noexcept {
    ok_ = ok_ && bytes <= rest_.size();
    if (!ok_)
      return {};
    auto taken = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return taken;
  }

  bool ok() const noexcept { return ok_; }
  void fail() noexcept { ok_ = false; }
  /// Whether every byte was read and no read failed.
  bool finished() const noexcept { return ok_ && rest_.empty(); }

private:
  std::string_view rest_;
  bool ok_ = true;
};

} // namespace peercache
