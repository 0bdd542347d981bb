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
/// page's space and its epoch (common/key_epoch.hpp has the bytes). Different (space, key) tuples
/// have different page keys.
struct page_key {
  std::array<std::uint8_t, 32> bytes{};
  auto operator<=>(const page_key&) const = default;

  /// The first 8 bytes of the key as a number. It is uniformly distributed, hence serves as a hash
  /// and as a position on the hash ring.
  std::uint64_t prefix() const noexcept {
    std::uint64_t value;
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
};
static_assert(sizeof(page_key) == 32);

/// Everything but the caller's key string that decides the meaning of a page's bytes, as the caller
/// declares it in a fixed order: model, weights revision, KV dtype, page size, layout, TP/PP/rank,
/// tenant salt. The first field names the space that `clear` clears. Immutable; any thread.
class key_space {
public:
  /// Makes a digest over `fields`, with each field's length before it.
  explicit key_space(std::span<const std::string_view> fields);
  key_space() : key_space(std::span<const std::string_view>{}) {}

  page_key key_of(std::string_view caller_key) const noexcept;

private:
  /// Bytes 0-19: the digest of all fields; bytes 20-27: the space_id; bytes 28-31: zero.
  std::array<std::uint8_t, 32> digest_;
};

/// Text of a key: 64 lower-case hex digits.
std::string to_string(const page_key& key);

/// Returns the key whose text is `hex`; upper-case digits are accepted. Errors: `invalid_argument`.
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
