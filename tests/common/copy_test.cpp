#include "common/copy.hpp"

#include "common/checksum.hpp"
#include "common/copy_kernels.hpp"

#include <algorithm>
#include <cstdint>
#include <gtest/gtest.h>
#include <random>
#include <string_view>
#include <vector>

namespace peercache {
namespace {

constexpr std::size_t margin_bytes = 128;
constexpr auto untouched = std::byte{0xa5};

/// Tests of copies from a source to a destination, around which bytes must stay untouched.
class copy : public testing::TestWithParam<const detail::copy_kernels*> {
protected:
  copy() {
    std::mt19937_64 random(1);
    for (auto& byte : source_)
      byte = static_cast<std::byte>(random());
  }

  std::span<const std::byte> from(std::size_t offset, std::size_t size_bytes) {
    return std::span<const std::byte>(aligned(source_) + offset, size_bytes);
  }

  std::span<std::byte> to(std::size_t offset, std::size_t size_bytes) {
    std::ranges::fill(destination_, untouched);
    return {aligned(destination_) + margin_bytes + offset, size_bytes};
  }

  void expect_exact(std::span<const std::byte> to, std::span<const std::byte> from) {
    ASSERT_TRUE(std::ranges::equal(to, from));
    const auto* first = to.data() - margin_bytes;
    const auto* last = to.data() + to.size();
    auto is_untouched = [](std::byte byte) { return byte == untouched; };
    ASSERT_TRUE(std::all_of(first, to.data(), is_untouched)) << "wrote before the destination";
    ASSERT_TRUE(std::all_of(last, last + margin_bytes, is_untouched)) << "wrote behind it";
  }

  void copies_exactly(std::size_t size_bytes, std::size_t to_offset, std::size_t from_offset) {
    SCOPED_TRACE(testing::Message()
                 << size_bytes << " bytes from +" << from_offset << " to +" << to_offset);
    auto source = from(from_offset, size_bytes);
    auto plain = to(to_offset, size_bytes);
    GetParam()->copy(plain.data(), source.data(), size_bytes);
    copy_fence();
    ASSERT_NO_FATAL_FAILURE(expect_exact(plain, source));

    auto checked = to(to_offset, size_bytes);
    auto digest = detail::copy_and_checksum_with(*GetParam(), checked, source);
    copy_fence();
    ASSERT_NO_FATAL_FAILURE(expect_exact(checked, source));
    ASSERT_EQ(digest, detail::checksum_with(detail::generic_kernels, source));
  }

private:
  static std::byte* aligned(std::vector<std::byte>& memory) {
    auto address = reinterpret_cast<std::uintptr_t>(memory.data());
    return memory.data() + (64 - address % 64) % 64;
  }

  std::vector<std::byte> source_ = std::vector<std::byte>(80000);
  std::vector<std::byte> destination_ = std::vector<std::byte>(80000);
};

INSTANTIATE_TEST_SUITE_P(each_instruction_set_of_this_cpu, copy,
                         testing::ValuesIn(detail::usable_kernels().begin(),
                                           detail::usable_kernels().end()),
                         [](const auto& set) { return set.param->instruction_set; });

TEST_P(copy, is_exact_for_every_small_size) {
  for (std::size_t size = 0; size < 3 * detail::block_bytes; size += size < 700 ? 1 : 13)
    ASSERT_NO_FATAL_FAILURE(copies_exactly(size, size % 64, size % 5));
}

TEST_P(copy, is_exact_for_every_alignment_of_the_destination) {
  for (std::size_t offset = 0; offset < 64; ++offset)
    for (std::size_t size : {1024, 1025, 5000, 8192, 33333})
      ASSERT_NO_FATAL_FAILURE(copies_exactly(size, offset, 0));
}

TEST_P(copy, is_exact_for_every_alignment_of_the_source) {
  for (std::size_t offset = 0; offset < 64; ++offset)
    for (std::size_t size : {1024, 5000, 65536})
      ASSERT_NO_FATAL_FAILURE(copies_exactly(size, 7 * offset % 64, offset));
}

TEST_P(copy, of_a_page_in_random_parts_is_exact_and_has_the_pages_checksum) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 200; ++round) {
    auto source = from(random() % 64, random() % 70000);
    auto page = to(random() % 64, source.size());
    checksum_stream digest(*GetParam());
    for (std::size_t done = 0; done < source.size();) {
      auto wanted = random() % 3 == 0 ? 2 * detail::block_bytes : random() % 9000;
      auto part = std::min(source.size() - done, wanted);
      digest.copy_and_update(page.subspan(done, part), source.subspan(done, part));
      done += part;
    }
    copy_fence();
    ASSERT_NO_FATAL_FAILURE(expect_exact(page, source));
    ASSERT_EQ(digest.digest(), checksum_of(source));
  }
}

TEST(copy_page, of_every_kind_agrees) {
  std::vector<std::byte> from(100001, std::byte{7});
  from[50000] = std::byte{8};
  std::vector<std::byte> plain(from.size());
  copy_page(plain, from);
  EXPECT_EQ(plain, from);

  std::vector<std::byte> checked(from.size());
  EXPECT_EQ(copy_page_and_checksum(checked, from), checksum_of(from));
  EXPECT_EQ(checked, from);

  std::vector<std::byte> in_parts(from.size());
  checksum_stream digest;
  std::span<std::byte> to(in_parts);
  std::span<const std::byte> source(from);
  copy_part(to.first(40000), source.first(40000), &digest);
  copy_part(to.subspan(40000), source.subspan(40000), &digest);
  copy_fence();
  EXPECT_EQ(in_parts, from);
  EXPECT_EQ(digest.digest(), checksum_of(from));
}

TEST(copy_page, takes_an_empty_and_a_one_byte_page) {
  copy_page({}, {});
  EXPECT_EQ(copy_page_and_checksum({}, {}), checksum_of({}));
  std::byte from{42};
  std::byte to{0};
  EXPECT_EQ(copy_page_and_checksum({&to, 1}, {&from, 1}), checksum_of({&from, 1}));
  EXPECT_EQ(to, from);
}

TEST(copy_page_death, different_sizes_are_a_fault_of_ours) {
  std::vector<std::byte> from(10);
  std::vector<std::byte> to(9);
  EXPECT_DEATH(copy_page(to, from), "assertion failed");
  EXPECT_DEATH(copy_page_and_checksum(to, from), "assertion failed");
}

TEST(copy_instruction_set, is_the_best_that_the_cpu_has) {
  auto usable = detail::usable_kernels();
  ASSERT_FALSE(usable.empty());
  EXPECT_STREQ(copy_instruction_set(), usable.front()->instruction_set);
  EXPECT_STREQ(usable.back()->instruction_set, "generic");
#if defined(__aarch64__)
  EXPECT_STREQ(copy_instruction_set(), "neon");
#else
  const bool has_avx512 = __builtin_cpu_supports("avx512f");
  EXPECT_EQ(std::string_view(copy_instruction_set()) == "avx512", has_avx512);
#endif
}

} // namespace
} // namespace peercache
