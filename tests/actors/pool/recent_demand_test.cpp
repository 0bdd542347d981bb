#include "actors/pool/recent_demand.hpp"

#include <gtest/gtest.h>

namespace peercache::actors {
namespace {

TEST(recent_demand, is_that_of_the_busiest_beat_and_is_forgotten_slowly) {
  recent_demand demand;
  demand.add(300);
  demand.add(700);
  EXPECT_EQ(demand.bytes(), 1000u) << "at once";
  demand.beat();
  demand.add(10);
  EXPECT_EQ(demand.bytes(), 1000u);
  for (int i = 0; i < 22; ++i)
    demand.beat();
  EXPECT_GT(demand.bytes(), 400u);
  EXPECT_LT(demand.bytes(), 600u);
  for (int i = 0; i < 400; ++i)
    demand.beat();
  EXPECT_LT(demand.bytes(), 32u);
}

} // namespace
} // namespace peercache::actors
