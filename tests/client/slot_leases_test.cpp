#include "client/slot_leases.hpp"

#include <gtest/gtest.h>

namespace peercache::client {
namespace {

TEST(slot_leases, hands_out_slots_of_the_leased_size_only) {
  slot_leases leases;
  EXPECT_EQ(leases.ask_for(2, 2), 2u);
  leases.add(2, 2, {{10}, {20}});
  slot_id slot;
  EXPECT_FALSE(leases.take(1, slot));
  EXPECT_TRUE(leases.take(2, slot));
  EXPECT_EQ(slot, slot_id{20});
}

TEST(slot_leases, asks_for_what_is_neither_leased_nor_on_its_way) {
  slot_leases leases;
  EXPECT_EQ(leases.ask_for(2, 4), 4u);
  EXPECT_EQ(leases.ask_for(2, 6), 2u);
  leases.add(2, 4, {{1}, {2}, {3}}); // The node could not give one of the four slots.
  EXPECT_EQ(leases.ask_for(2, 6), 1u);
  leases.add(2, 2, {}); // The request for two slots ended with an error.
  EXPECT_EQ(leases.ask_for(2, 6), 2u);
}

TEST(slot_leases, returns_what_is_left_of_another_size) {
  slot_leases leases;
  leases.ask_for(2, 2);
  leases.add(2, 2, {{10}, {20}});
  leases.ask_for(3, 2);
  EXPECT_EQ(leases.add(3, 1, {{30}}), (std::vector<slot_id>{{10}, {20}}));
  EXPECT_EQ(leases.add(3, 1, {{40}}), std::vector<slot_id>{});
  slot_id slot;
  EXPECT_TRUE(leases.take(3, slot));
  EXPECT_EQ(slot, slot_id{40});
  EXPECT_TRUE(leases.take(3, slot));
  EXPECT_EQ(slot, slot_id{30});
  EXPECT_FALSE(leases.take(3, slot));
}

TEST(slot_leases, a_page_takes_whole_granules) {
  EXPECT_EQ(limits::granules_of(1), 1u);
  EXPECT_EQ(limits::granules_of(4096), 1u);
  EXPECT_EQ(limits::granules_of(4097), 2u);
}

} // namespace
} // namespace peercache::client
