#include "common/printable.hpp"

#include <gtest/gtest.h>

namespace peercache {
namespace {

TEST(printable, printable_ascii_stays_and_every_other_byte_is_replaced) {
  for (int value = 0; value < 256; ++value) {
    const std::string text(3, static_cast<char>(value));
    EXPECT_EQ(printable(text), value >= 0x20 && value < 0x7f ? text : "???") << value;
  }
  EXPECT_EQ(printable("a\nb\x1b[31m \"\\"), "a?b?[31m \"\\");
  EXPECT_EQ(printable(""), "");
}

} // namespace
} // namespace peercache
