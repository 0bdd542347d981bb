#include "common/page_key.hpp"

#include "common/key_epoch.hpp"

#include <blake3.h>
#include <cstddef>

namespace peercache {
namespace {

static_assert(key_digest_bytes + sizeof(space_id::value) == key_epoch_offset &&
                  key_epoch_offset + sizeof(epoch_number) == sizeof(page_key),
              "digest, space and epoch are all of a key");

class field_hasher {
public:
  field_hasher() noexcept { blake3_hasher_init(&hasher_); }

  void add(const void* data, std::size_t length_bytes) noexcept {
    std::array<std::uint8_t, 8> prefix;
    for (std::size_t i = 0; i < prefix.size(); ++i)
      prefix[i] = static_cast<std::uint8_t>(std::uint64_t{length_bytes} >> (8 * i));
    blake3_hasher_update(&hasher_, prefix.data(), prefix.size());
    blake3_hasher_update(&hasher_, data, length_bytes);
  }

  std::array<std::uint8_t, 32> digest() const noexcept {
    std::array<std::uint8_t, 32> out;
    blake3_hasher_finalize(&hasher_, out.data(), out.size());
    return out;
  }

private:
  blake3_hasher hasher_;
};

/// Writes the bytes of a key that follow the digest: the space, and epoch 0.
void name_space(std::array<std::uint8_t, 32>& bytes, space_id space) noexcept {
  std::memcpy(bytes.data() + key_digest_bytes, &space.value, sizeof space.value);
  std::memset(bytes.data() + key_epoch_offset, 0, sizeof(epoch_number));
}

int hex_digit_value(char digit) noexcept {
  if (digit >= '0' && digit <= '9')
    return digit - '0';
  if (digit >= 'a' && digit <= 'f')
    return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F')
    return digit - 'A' + 10;
  return -1;
}

} // namespace

key_space::key_space(std::span<const std::string_view> fields) {
  field_hasher hasher;
  for (auto field : fields)
    hasher.add(field.data(), field.size());
  digest_ = hasher.digest();
  name_space(digest_, space_named(fields.empty() ? std::string_view{} : fields.front()));
}

page_key key_space::key_of(std::string_view caller_key) const noexcept {
  field_hasher hasher;
  hasher.add(digest_.data(), digest_.size());
  hasher.add(caller_key.data(), caller_key.size());
  page_key key{hasher.digest()};
  name_space(key.bytes, space_of({digest_}));
  return key;
}

space_id space_named(std::string_view name) noexcept {
  field_hasher hasher;
  hasher.add(name.data(), name.size());
  const auto id = page_key{hasher.digest()}.prefix();
  return {id != 0 ? id : 1};
}

std::string to_string(space_id space) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4)
    text += digits[space.value >> shift & 15];
  return text;
}

std::string to_string(const page_key& key) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * key.bytes.size());
  for (auto byte : key.bytes) {
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

result<page_key> parse_page_key(std::string_view hex) {
  page_key key;
  if (hex.size() != 2 * key.bytes.size())
    return {errc::invalid_argument,
            "a page key is 64 hex digits, got " + std::to_string(hex.size()) + " characters"};
  for (std::size_t i = 0; i < key.bytes.size(); ++i) {
    int high = hex_digit_value(hex[2 * i]);
    int low = hex_digit_value(hex[2 * i + 1]);
    if (high < 0 || low < 0)
      return {errc::invalid_argument, "a page key is 64 hex digits, position " +
                                          std::to_string(high < 0 ? 2 * i : 2 * i + 1) +
                                          " holds something else"};
    key.bytes[i] = static_cast<std::uint8_t>(high * 16 + low);
  }
  return key;
}

} // namespace peercache
