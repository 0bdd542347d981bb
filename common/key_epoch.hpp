#pragma once

#include "common/page_key.hpp"

#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>

namespace peercache {

// The bytes of a page_key (little endian). Keys travel, lie in shared memory and on disk: any
// change is another `wire_version`, `pool_layout_version` and `record_version`.
//
//   offset  bytes  field
//        0     20  digest  BLAKE3 of all fields and of the caller's key, cut to 160 bits
//       20      8  space   hash of the key space's first field, never 0
//       28      4  epoch   the space's epoch when the page was set; each clear raises it
//
// Pages of an older epoch have other keys: a client that knows the newer epoch finds none of them.
// Callers make keys of epoch 0, and the client sets the space's current epoch as a call begins.

static_assert(std::endian::native == std::endian::little, "numbers are copied as they lie");

using epoch_number = std::uint32_t;

inline constexpr std::size_t key_digest_bytes = 20;
inline constexpr std::size_t key_epoch_offset = 28;

/// A space of keys: names the pages that one `clear` withdraws.
struct space_id {
  std::uint64_t value = 0; ///< The hash of the space's name; 0 means no space.
  auto operator<=>(const space_id&) const = default;
};

/// The space of all key spaces whose first field is `name`. Key spaces without fields are in the
/// space of "".
space_id space_named(std::string_view name) noexcept;

/// Text of a space: 16 lower-case hex digits.
std::string to_string(space_id space);

inline space_id space_of(const page_key& key) noexcept {
  space_id space;
  std::memcpy(&space.value, key.bytes.data() + key_digest_bytes, sizeof space.value);
  return space;
}

inline epoch_number epoch_of(const page_key& key) noexcept {
  epoch_number epoch;
  std::memcpy(&epoch, key.bytes.data() + key_epoch_offset, sizeof epoch);
  return epoch;
}

inline void set_epoch(page_key& key, epoch_number epoch) noexcept {
  std::memcpy(key.bytes.data() + key_epoch_offset, &epoch, sizeof epoch);
}

} // namespace peercache

template <>
struct std::hash<peercache::space_id> {
  std::size_t operator()(peercache::space_id space) const noexcept { return space.value; }
};
