#include "client/session/prefetch_allowance.hpp"

#include <gtest/gtest.h>

namespace peercache::client {
namespace {

constexpr auto keys_most = prefetch_allowance::keys_max;

TEST(prefetch_allowance, leaves_out_what_would_be_too_much) {
  prefetch_allowance keys;
  EXPECT_TRUE(keys.take(keys_most - 1));
  EXPECT_FALSE(keys.take(2));
  EXPECT_EQ(keys.under_way(), keys_most - 1) << "what was refused does not count";
  EXPECT_TRUE(keys.take(1));
  EXPECT_FALSE(keys.take(1));
}

TEST(prefetch_allowance, has_room_again_when_owners_have_answered) {
  prefetch_allowance keys;
  ASSERT_TRUE(keys.take(keys_most));
  keys.give_back(100);
  EXPECT_FALSE(keys.take(101));
  EXPECT_TRUE(keys.take(100));
}

} // namespace
} // namespace peercache::client
