#include "client/calls/mirror_call.hpp"
#include "common/checksum.hpp"
#include "common/test_guards.hpp"

#include <algorithm>
#include <array>
#include <gtest/gtest.h>

namespace peercache::client {
namespace {

/// A page of two parts, as `get` left it in the caller's memory.
struct read_page {
  read_page() {
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<std::byte>(i * 7);
  }
  std::array<page_part, 2> parts() {
    return {page_part{bytes.data(), 4096}, page_part{bytes.data() + 4096, 4096}};
  }
  std::array<std::byte, 8192> bytes{};
};

TEST(mirror_copy, is_the_page_with_its_parts_one_behind_the_other) {
  read_page page;
  std::array<std::byte, 8192> slot{};
  EXPECT_TRUE(mirror_call::copy_compared(page.parts(), slot, checksum_of(page.bytes)));
  EXPECT_TRUE(std::ranges::equal(slot, page.bytes));
}

TEST(mirror_copy, of_bytes_that_are_not_the_records_is_refused) {
  read_page page;
  const auto checksum = checksum_of(page.bytes);
  page.bytes[5000] ^= std::byte{1};
  std::array<std::byte, 8192> slot{};
  EXPECT_FALSE(mirror_call::copy_compared(page.parts(), slot, checksum));
}

TEST(mirror_copy, of_wrong_bytes_gets_through_without_the_checksum) {
  read_page page;
  const auto checksum = checksum_of(page.bytes);
  page.bytes[5000] ^= std::byte{1};
  std::array<std::byte, 8192> slot{};
  guard_switched_off off(guard::checksum);
  EXPECT_TRUE(mirror_call::copy_compared(page.parts(), slot, checksum));
}

} // namespace
} // namespace peercache::client
