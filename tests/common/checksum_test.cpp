#include "common/checksum.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <gtest/gtest.h>
#include <random>
#include <vector>

namespace peercache {
namespace {

std::vector<std::byte> random_bytes(std::size_t count, std::uint64_t seed) {
  std::vector<std::byte> bytes(count);
  std::mt19937_64 random(seed);
  for (auto& byte : bytes)
    byte = static_cast<std::byte>(random());
  return bytes;
}

std::uint64_t library_checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

class checksum : public testing::TestWithParam<const detail::copy_kernels*> {};

INSTANTIATE_TEST_SUITE_P(each_instruction_set_of_this_cpu, checksum,
                         testing::ValuesIn(detail::usable_kernels().begin(),
                                           detail::usable_kernels().end()),
                         [](const auto& set) { return set.param->instruction_set; });

TEST_P(checksum, equals_the_librarys_for_every_length_up_to_five_blocks) {
  auto bytes = random_bytes(5 * detail::block_bytes + 1, 1);
  for (std::size_t length = 0; length <= bytes.size(); ++length) {
    auto part = std::span<const std::byte>(bytes).first(length);
    ASSERT_EQ(detail::checksum_with(*GetParam(), part), library_checksum(part)) << length;
  }
}

/// The tested input has the XXH3 digest 0. It was found by inverting XXH3, which is bijective on
/// inputs of 8 bytes.
TEST_P(checksum, whose_digest_is_0_is_1_because_0_says_that_there_is_none) {
  constexpr std::array<unsigned char, 8> digest_0{0x42, 0xd5, 0x68, 0xe1, 0x38, 0xd7, 0x27, 0xff};
  const auto bytes = std::as_bytes(std::span(digest_0));
  ASSERT_EQ(library_checksum(bytes), 0u);
  EXPECT_EQ(detail::checksum_with(*GetParam(), bytes), 1u);
  std::array<std::byte, 8> copy;
  EXPECT_EQ(detail::copy_and_checksum_with(*GetParam(), copy, bytes), 1u);
  checksum_stream stream(*GetParam());
  stream.update(bytes);
  EXPECT_EQ(stream.digest(), 1u);
}

TEST_P(checksum, equals_the_librarys_at_every_alignment_of_a_long_input) {
  auto bytes = random_bytes((1 << 20) + 128, 2);
  for (std::size_t offset = 0; offset < 64; ++offset) {
    auto part = std::span<const std::byte>(bytes).subspan(offset, (1 << 20) + offset % 3);
    ASSERT_EQ(detail::checksum_with(*GetParam(), part), library_checksum(part)) << offset;
  }
}

TEST_P(checksum, of_a_stream_equals_the_one_of_the_whole_for_random_splits) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  checksum_stream stream(*GetParam());
  for (int round = 0; round < 300; ++round) {
    auto bytes = random_bytes(random() % 20000, random());
    // Rounds have small pieces or pieces of whole blocks, because the code handles these
    // differently.
    const std::size_t piece_max = round % 3 == 0 ? 300 : round % 3 == 1 ? 5000 : 3;
    stream.reset();
    std::span<const std::byte> rest(bytes);
    while (!rest.empty()) {
      auto size = random() % 4 == 0 ? detail::block_bytes : random() % (piece_max + 1);
      auto piece = rest.first(std::min(rest.size(), size));
      stream.update(piece);
      rest = rest.subspan(piece.size());
    }
    ASSERT_EQ(stream.digest(), library_checksum(bytes)) << bytes.size() << " bytes";
  }
}

TEST_P(checksum, of_a_stream_may_be_asked_in_between) {
  auto bytes = random_bytes(3000, 3);
  checksum_stream stream(*GetParam());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::span<const std::byte> whole(bytes);
    ASSERT_EQ(stream.digest(), library_checksum(whole.first(i))) << i;
    stream.update(whole.subspan(i, 1));
  }
}

TEST(checksum_of, an_empty_input_is_xxh3s_published_value) {
  EXPECT_EQ(checksum_of({}), 0x2d06800538d394c2u);
}

TEST(checksum_of, one_flipped_bit_anywhere_changes_it) {
  auto bytes = random_bytes(4096, 4);
  const auto before = checksum_of(bytes);
  for (std::size_t bit = 0; bit < 8 * bytes.size(); bit += 7) {
    auto flip = static_cast<std::byte>(1u << bit % 8);
    bytes[bit / 8] ^= flip;
    ASSERT_NE(checksum_of(bytes), before) << bit;
    bytes[bit / 8] ^= flip;
  }
}

} // namespace
} // namespace peercache
