#include "client/calls/timed_copy.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace peercache::client {
namespace {

using std::chrono::milliseconds;

deadline fake_now;
milliseconds per_look;

/// A fake clock, which advances by `per_look` each time it is read.
deadline look() {
  return fake_now += per_look;
}

class timed_copy_test : public testing::Test {
protected:
  static constexpr std::size_t page_bytes = 9 * timed_copy::look_bytes + 77;

  void SetUp() override {
    fake_now = deadline{} + std::chrono::hours(1);
    per_look = milliseconds(0);
    for (std::size_t i = 0; i < from.size(); i += 4096)
      from[i] = static_cast<std::byte>(i / 4096);
  }

  /// Copies the page in parts of this size; `copied` counts the bytes. Returns false when the copy
  /// ended before the last part.
  bool copy(timed_copy& by, std::size_t part_bytes) {
    for (copied = 0; copied < page_bytes;) {
      const auto bytes = std::min(part_bytes, page_bytes - copied);
      if (!by.copy(std::span(to).subspan(copied, bytes), std::span(from).subspan(copied, bytes)))
        return false;
      copied += bytes;
    }
    return true;
  }

  std::vector<std::byte> from = std::vector<std::byte>(page_bytes);
  std::vector<std::byte> to = std::vector<std::byte>(page_bytes, std::byte{0xa5});
  std::size_t copied = 0;
};

TEST_F(timed_copy_test, copies_all_parts_and_knows_their_digest) {
  for (const std::size_t part_bytes : {page_bytes, timed_copy::look_bytes, std::size_t{300'001}}) {
    std::fill(to.begin(), to.end(), std::byte{0xa5});
    timed_copy whole{fake_now + milliseconds(1), true, &look};
    ASSERT_TRUE(copy(whole, part_bytes));
    EXPECT_EQ(to, from);
    EXPECT_EQ(whole.digest(), checksum_of(from));
  }
}

TEST_F(timed_copy_test, gives_up_within_a_part_when_the_deadline_passes) {
  per_look = milliseconds(2);
  timed_copy whole{fake_now + milliseconds(5), false, &look};
  EXPECT_FALSE(copy(whole, page_bytes));
  // The copier reads the clock for the third time after 6 ms.
  const auto reached = 3 * timed_copy::look_bytes;
  EXPECT_TRUE(std::equal(to.begin(), to.begin() + reached, from.begin()));
  EXPECT_EQ(to[reached], std::byte{0xa5}) << "no byte after it";
}

TEST_F(timed_copy_test, many_small_parts_are_as_late_as_one_large_one) {
  per_look = milliseconds(2);
  timed_copy whole{fake_now + milliseconds(5), false, &look};
  EXPECT_FALSE(copy(whole, 300'001));
  EXPECT_LE(copied, 3 * timed_copy::look_bytes);
}

TEST_F(timed_copy_test, a_small_page_is_copied_whatever_the_clock_says) {
  timed_copy whole{fake_now - milliseconds(1), false, &look};
  EXPECT_TRUE(whole.copy(std::span(to).first(timed_copy::look_bytes),
                         std::span(from).first(timed_copy::look_bytes)));
}

} // namespace
} // namespace peercache::client
