#include "bench/page_content.hpp"

#include <gtest/gtest.h>
#include <vector>

namespace peercache::bench {

namespace {

std::vector<std::byte> page_of(std::uint32_t id, std::uint32_t version, std::size_t bytes) {
  std::vector<std::byte> page(bytes);
  fill_page(id, version, page);
  return page;
}

} // namespace

TEST(page_content, a_page_is_right_in_every_version_that_was_put) {
  for (std::uint32_t version : {0u, 1u, page_version_max}) {
    auto page = page_of(4711, version, 16384);
    auto check = check_page(4711, page);
    EXPECT_EQ(check.wrong_bytes, 0u);
    EXPECT_EQ(check.version, version);
  }
}

TEST(page_content, a_single_flipped_byte_is_one_wrong_byte_wherever_it_is) {
  for (std::size_t at : {std::size_t{8}, std::size_t{4095}, std::size_t{16383}}) {
    auto page = page_of(7, 3, 16384);
    page[at] ^= std::byte{0x40};
    EXPECT_EQ(check_page(7, page).wrong_bytes, 1u) << "at " << at;
  }
}

TEST(page_content, another_page_in_its_place_is_wrong_and_named) {
  auto check = check_page(7, page_of(8, 3, 4096));
  EXPECT_GE(check.wrong_bytes, 4096u / 8);
  EXPECT_EQ(check.found_id, 8u);
}

TEST(page_content, a_page_torn_between_two_versions_is_wrong) {
  auto page = page_of(7, 1, 4096);
  auto newer = page_of(7, 2, 4096);
  std::copy(newer.begin() + 2048, newer.end(), page.begin() + 2048);
  EXPECT_EQ(check_page(7, page).wrong_bytes, 2048u / 8);
}

TEST(page_content, words_out_of_their_place_are_wrong) {
  auto page = page_of(7, 1, 8192);
  std::copy(page.begin() + 4096, page.end(), page.begin());
  EXPECT_GT(check_page(7, page).wrong_bytes, 0u);
}

TEST(page_content, the_odd_bytes_at_the_end_are_compared_too) {
  auto page = page_of(7, 1, 13);
  EXPECT_EQ(check_page(7, page).wrong_bytes, 0u);
  page[12] ^= std::byte{1};
  EXPECT_EQ(check_page(7, page).wrong_bytes, 1u);
}

TEST(page_content, an_untouched_destination_is_wrong) {
  std::vector<std::byte> page(4096, std::byte{0xa5});
  EXPECT_GT(check_page(7, page).wrong_bytes, 4096u / 2);
}

} // namespace peercache::bench
