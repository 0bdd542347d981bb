#include "net/sha256.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <string_view>

namespace peercache::net {
namespace sha256_test {

std::span<const std::uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

std::string hex(const sha256::digest& digest) {
  std::string text;
  for (const auto byte : digest) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", byte);
    text += digits;
  }
  return text;
}

/// Expects the digests in FIPS 180-2, appendix B.
TEST(sha256, makes_the_digests_of_the_standard_one_after_the_other) {
  sha256 maker;
  maker.add(bytes_of("abc"));
  EXPECT_EQ(hex(maker.finish()),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  maker.add(bytes_of("abcdbcdecdefdefgefghfghighijhijk"));
  maker.add(bytes_of("ijkljklmklmnlmnomnopnopq"));
  EXPECT_EQ(hex(maker.finish()),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(sha256, has_a_digest_of_nothing) {
  EXPECT_EQ(hex(sha256{}.finish()),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

} // namespace sha256_test
} // namespace peercache::net
