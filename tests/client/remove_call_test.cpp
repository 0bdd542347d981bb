#include "client/remove_call.hpp"

#include <gtest/gtest.h>

namespace peercache::client {
namespace {

using enum page_status;

TEST(remove_call, is_a_hit_only_when_a_holder_really_had_the_page) {
  EXPECT_EQ(join_removals(pending, hit), hit);
  EXPECT_EQ(join_removals(pending, not_found), not_found) << "the record was out of date";
  EXPECT_EQ(join_removals(not_found, hit), hit);
  EXPECT_EQ(join_removals(hit, not_found), hit);
}

TEST(remove_call, a_holder_that_could_not_be_asked_may_still_have_the_page) {
  EXPECT_EQ(join_removals(hit, unreachable), unreachable);
  EXPECT_EQ(join_removals(timed_out, hit), timed_out);
  EXPECT_EQ(join_removals(timed_out, unreachable), timed_out);
}

} // namespace
} // namespace peercache::client
