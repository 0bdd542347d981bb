#include "common/page_key.hpp"

#include "common/key_epoch.hpp"

#include <array>
#include <blake3.h>
#include <gtest/gtest.h>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

namespace peercache {
namespace {

page_key blake3_of(std::string_view bytes) {
  blake3_hasher hasher;
  blake3_hasher_init(&hasher);
  blake3_hasher_update(&hasher, bytes.data(), bytes.size());
  page_key key;
  blake3_hasher_finalize(&hasher, key.bytes.data(), key.bytes.size());
  return key;
}

std::string length_prefixed(std::string_view field) {
  std::string bytes;
  for (int i = 0; i < 8; ++i)
    bytes += static_cast<char>(field.size() >> (8 * i) & 0xff);
  return bytes.append(field);
}

std::string raw(const page_key& key) {
  return {key.bytes.begin(), key.bytes.end()};
}

/// Returns the input of BLAKE3's published test vectors: bytes 0, 1, … 250, 0, 1, …
std::string published_input(std::size_t length) {
  std::string bytes;
  for (std::size_t i = 0; i < length; ++i)
    bytes += static_cast<char>(i % 251);
  return bytes;
}

TEST(blake3, has_the_published_digests) {
  EXPECT_EQ(to_string(blake3_of("")),
            "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262");
  EXPECT_EQ(to_string(blake3_of(published_input(1))),
            "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213");
  EXPECT_EQ(to_string(blake3_of("abc")),
            "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85");
}

TEST(page_key, is_blake3_over_length_prefixed_fields) {
  const std::array<std::string_view, 3> fields = {"llama", "", "bf16"};
  std::string space;
  for (auto field : fields)
    space += length_prefixed(field);
  const auto id = raw(blake3_of(length_prefixed("llama"))).substr(0, 8);
  const auto behind = id + std::string(4, '\0');
  const auto of_fields = raw(blake3_of(space)).substr(0, 20) + behind;
  const auto digest = raw(blake3_of(length_prefixed(of_fields) + length_prefixed("key")));
  EXPECT_EQ(raw(key_space(fields).key_of("key")), digest.substr(0, 20) + behind);
}

TEST(page_key, names_the_space_of_its_first_field) {
  const std::array<std::string_view, 2> one = {"llama", "bf16"};
  const std::array<std::string_view, 3> two = {"llama", "fp8", "rank 1"};
  const std::array<std::string_view, 2> other = {"qwen", "bf16"};
  EXPECT_EQ(space_of(key_space(one).key_of("a")), space_named("llama"));
  EXPECT_EQ(space_of(key_space(two).key_of("b")), space_named("llama"));
  EXPECT_EQ(space_of(key_space(other).key_of("a")), space_named("qwen"));
  EXPECT_EQ(space_of(key_space{}.key_of("a")), space_named(""));
  EXPECT_EQ(to_string(space_id{0x0123456789abcdef}), "0123456789abcdef");
}

TEST(page_key, the_epoch_changes_nothing_else) {
  const auto made = key_space{}.key_of("a");
  EXPECT_EQ(epoch_of(made), 0u);
  auto later = made;
  set_epoch(later, 0x01020304);
  EXPECT_EQ(epoch_of(later), 0x01020304u);
  EXPECT_NE(later, made);
  EXPECT_EQ(later.prefix(), made.prefix());
  EXPECT_EQ(space_of(later), space_of(made));
  set_epoch(later, 0);
  EXPECT_EQ(later, made);
}

TEST(page_key, fields_do_not_run_into_each_other) {
  const std::vector<std::vector<std::string_view>> different = {
      {"a", "bc"}, {"ab", "c"}, {"abc"}, {"abc", ""}, {"", "abc"}, {"a", "b", "c"}, {}, {""},
  };
  std::set<page_key> keys;
  for (const auto& fields : different)
    keys.insert(key_space(fields).key_of("key"));
  EXPECT_EQ(keys.size(), different.size());
}

TEST(page_key, a_field_does_not_run_into_the_callers_key) {
  const std::array<std::string_view, 1> short_field = {"a"};
  const std::array<std::string_view, 1> long_field = {"ab"};
  EXPECT_NE(key_space(short_field).key_of("bc"), key_space(long_field).key_of("c"));
}

TEST(page_key, changing_any_field_changes_the_key) {
  const std::vector<std::string_view> fields = {"model", "rev", "bf16", "64", "mha", "8", "2", "x"};
  std::set<page_key> keys = {key_space(fields).key_of("k")};
  for (std::size_t i = 0; i < fields.size(); ++i) {
    auto changed = fields;
    changed[i] = "other";
    keys.insert(key_space(changed).key_of("k"));
  }
  keys.insert(key_space(fields).key_of("l"));
  keys.insert(key_space(fields).key_of(""));
  EXPECT_EQ(keys.size(), fields.size() + 3);
}

TEST(page_key, is_the_same_whenever_it_is_computed) {
  const std::array<std::string_view, 2> fields = {"model", "rev"};
  EXPECT_EQ(key_space(fields).key_of("k"), key_space(fields).key_of("k"));
  EXPECT_EQ(key_space().key_of("k"), key_space(std::span<const std::string_view>{}).key_of("k"));
}

TEST(page_key, can_be_a_member_of_a_hash_set) {
  std::unordered_set<page_key> keys;
  for (int i = 0; i < 1000; ++i)
    keys.insert(key_space().key_of(std::to_string(i)));
  EXPECT_EQ(keys.size(), 1000u);
  EXPECT_TRUE(keys.contains(key_space().key_of("999")));
}

TEST(page_key, printed_and_parsed_is_the_same) {
  for (int i = 0; i < 300; ++i) {
    auto key = key_space().key_of(std::to_string(i));
    auto text = to_string(key);
    EXPECT_EQ(text.size(), 64u);
    auto parsed = parse_page_key(text);
    ASSERT_TRUE(parsed);
    EXPECT_EQ(*parsed, key);
  }
}

TEST(page_key, is_parsed_from_upper_case_too) {
  std::string text(64, 'F');
  text[0] = 'a';
  auto parsed = parse_page_key(text);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->bytes[0], 0xaf);
  EXPECT_EQ(parsed->bytes[31], 0xff);
}

TEST(page_key, is_not_parsed_from_anything_else) {
  const std::string good(64, '0');
  std::vector<std::string> bad = {"", good.substr(1), good + "0"};
  for (char c : {'g', 'G', '/', ':', '@', '`', ' ', '\0', '-', '\xff'}) {
    for (std::size_t position : {0, 1, 63}) {
      bad.push_back(good);
      bad.back()[position] = c;
    }
  }
  for (const auto& text : bad) {
    auto parsed = parse_page_key(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().code, errc::invalid_argument);
    EXPECT_NE(parsed.error().message, "");
  }
}

} // namespace
} // namespace peercache
