#include "actors/membership/turned_away.hpp"

#include "common/fault_ids.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace peercache::actors::turned_away_test {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

const turned_away::time_point begin = turned_away::time_point{} + seconds(1000);

TEST(turned_away, who_is_refused_for_long_is_named_for_a_minute) {
  turned_away callers;
  for (const int after : {0, 1, 4})
    callers.note("'b'", "its name is taken", "rename it", begin + seconds(after), 7);
  EXPECT_TRUE(callers.faults(begin + seconds(4)).empty()) << "it may come in soon";
  callers.note("'b'", "the cluster is full", "none", begin + seconds(5), 9);
  const auto said = callers.faults(begin + seconds(5));
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].id, fault_ids::join_turned_away);
  EXPECT_THAT(said[0].what, HasSubstr("'b': the cluster is full"));
  EXPECT_EQ(said[0].fix, "none");
  EXPECT_EQ(said[0].since_ms, 7u);
  EXPECT_EQ(callers.faults(begin + seconds(65)).size(), 1u);
  EXPECT_TRUE(callers.faults(begin + seconds(66)).empty());
}

TEST(turned_away, a_caller_that_stayed_away_begins_anew) {
  turned_away callers;
  callers.note("'b'", "why", "", begin, 7);
  callers.note("'b'", "why", "", begin + seconds(61), 68);
  EXPECT_TRUE(callers.faults(begin + seconds(61)).empty());
}

TEST(turned_away, who_has_come_in_is_not_named_longer) {
  turned_away callers;
  for (const int after : {0, 5})
    callers.note("'b'", "why", "", begin + seconds(after), 7);
  callers.forget("'b'");
  EXPECT_TRUE(callers.faults(begin + seconds(5)).empty());
}

/// Many strangers with different names must neither fill the memory nor push out callers that
/// faults name already.
TEST(turned_away, many_callers_take_the_places_of_those_that_are_not_named) {
  turned_away callers;
  for (const int after : {0, 5})
    callers.note("'b'", "why", "", begin + seconds(after), 7);
  for (std::size_t i = 0; i < 10 * turned_away::callers_max; ++i)
    callers.note(std::to_string(i), "why", "", begin + seconds(6), 8);
  EXPECT_EQ(callers.faults(begin + seconds(6)).size(), 1u);
  for (std::size_t i = 0; i < 10 * turned_away::callers_max; ++i)
    callers.note("late " + std::to_string(i % turned_away::callers_max), "why", "",
                 begin + seconds(7 + i), 9);
  EXPECT_LE(callers.faults(begin + seconds(60)).size(), turned_away::callers_max);
}

} // namespace
} // namespace peercache::actors::turned_away_test
