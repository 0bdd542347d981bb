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

TEST(printable, what_others_say_is_cut_and_has_no_control_characters) {
  EXPECT_EQ(peer_text("short"), "short");
  EXPECT_EQ(peer_text("a\nb\x1b[31m"), "a?b?[31m");
  EXPECT_EQ(peer_text(std::string(8 << 20, 'x')).size(), 256u);
}

} // namespace
} // namespace peercache
