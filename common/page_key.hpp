#pragma once

#include "common/hash_seed.hpp"
#include "common/result.hpp"

#include <array>
#include <compare>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace peercache {

/// Names one KV page in the cluster: BLAKE3, cut to 160 bits, over length-prefixed fields, then the
/// page's space and its epoch (common/key_epoch.hpp has the bytes): no two (space, key) tuples
/// meet.
struct page_key {
  std::array<std::uint8_t, 32> bytes{};
  auto operator<=>(const page_key&) const = default;

  /// The first 8 bytes of the key as a number: uniform, hence a hash and a position on the ring.
  std::uint64_t prefix() const noexcept {
    std::uint64_t value;
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
};
static_assert(sizeof(page_key) == 32);

/// What decides the meaning of a page's bytes besides the caller's key string: model, weights
/// revision, KV dtype, page size, layout, TP/PP/rank, tenant salt: whatever the caller declares, in
/// a fixed order. The first field names the space that `clear` clears. Immutable; any thread.
class key_space {
public:
  /// Digests `fields`, each with its length before it.
  explicit key_space(std::span<const std::string_view> fields);
  key_space() : key_space(std::span<const std::string_view>{}) {}

  page_key key_of(std::string_view caller_key) const noexcept;

private:
  /// Bytes 0-19: the digest of all fields; bytes 20-27: the space.
  std::array<std::uint8_t, 32> digest_;
};

/// Text of a key: 64 lower-case hex digits.
std::string to_string(const page_key& key);

/// The key whose text is `hex`; upper-case digits are taken too. Errors: `invalid_argument`.
result<page_key> parse_page_key(std::string_view hex);

} // namespace peercache

template <>
struct std::hash<peercache::page_key> {
  std::size_t operator()(const peercache::page_key& key) const noexcept {
    std::array<std::uint64_t, 4> words;
    std::memcpy(words.data(), key.bytes.data(), sizeof words);
    return peercache::hash_seed::mix(words[0], words[1], words[2], words[3]);
  }
};
