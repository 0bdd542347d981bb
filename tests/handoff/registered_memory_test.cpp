#include "handoff/registered_memory.hpp"

#include <gtest/gtest.h>

namespace peercache::handoff::registered_memory_test {
namespace {

TEST(registered_memory, overlaps_nothing_that_is_registered) {
  registered_memory memory;
  ASSERT_TRUE(memory.add({1000, 100}));
  for (const memory_range& range :
       {memory_range{1000, 100}, {1000, 1}, {1099, 1}, {900, 101}, {900, 1000}, {1050, 10}})
    EXPECT_EQ(memory.add(range).error().code, errc::refused) << range.address;
  EXPECT_TRUE(memory.add({1100, 1}));
  EXPECT_TRUE(memory.add({900, 100}));
  EXPECT_EQ(memory.size(), 3u);
}

TEST(registered_memory, has_bytes_and_ends_within_the_address_space) {
  registered_memory memory;
  EXPECT_EQ(memory.add({1000, 0}).error().code, errc::invalid_argument);
  EXPECT_EQ(memory.add({0, 10}).error().code, errc::invalid_argument);
  EXPECT_EQ(memory.add({~std::uint64_t{0} - 5, 6}).error().code, errc::invalid_argument);
}

TEST(registered_memory, covers_what_lies_in_one_range) {
  registered_memory memory;
  ASSERT_TRUE(memory.add({1000, 100}));
  ASSERT_TRUE(memory.add({1100, 100}));
  EXPECT_TRUE(memory.covers({1000, 100}));
  EXPECT_TRUE(memory.covers({1199, 1}));
  EXPECT_FALSE(memory.covers({999, 2}));
  EXPECT_FALSE(memory.covers({1050, 100})) << "two ranges that touch are two";
  EXPECT_FALSE(memory.covers({1199, 2}));
  EXPECT_FALSE(memory.covers({1200, 1}));
}

TEST(registered_memory, is_registered_again_after_its_removal) {
  registered_memory memory;
  ASSERT_TRUE(memory.add({1000, 100}));
  EXPECT_FALSE(memory.remove(1001));
  EXPECT_EQ(memory.remove(1000), (memory_range{1000, 100}));
  EXPECT_FALSE(memory.covers({1000, 1}));
  EXPECT_FALSE(memory.remove(1000));
  EXPECT_TRUE(memory.add({1050, 100}));
}

} // namespace
} // namespace peercache::handoff::registered_memory_test
