#include "client/slot_leases.hpp"

#include <gtest/gtest.h>

namespace peercache::client {
namespace {

TEST(slot_leases, hands_out_slots_of_the_leased_size_only) {
  slot_leases leases;
  leases.add(2, {{10}, {20}});
  slot_id slot;
  EXPECT_FALSE(leases.take(1, slot));
  EXPECT_TRUE(leases.take(2, slot));
  EXPECT_EQ(leases.available(2), 1u);
  EXPECT_EQ(leases.available(1), 0u);
}

TEST(slot_leases, returns_what_is_left_of_another_size) {
  slot_leases leases;
  leases.add(2, {{10}, {20}});
  EXPECT_EQ(leases.add(3, {{30}}), (std::vector<slot_id>{{10}, {20}}));
  EXPECT_EQ(leases.add(3, {{40}}), std::vector<slot_id>{});
  EXPECT_EQ(leases.clear(), (std::vector<slot_id>{{30}, {40}}));
  EXPECT_EQ(leases.available(3), 0u);
}

TEST(slot_leases, a_page_takes_whole_granules) {
  EXPECT_EQ(slot_leases::granules_of(1), 1u);
  EXPECT_EQ(slot_leases::granules_of(4096), 1u);
  EXPECT_EQ(slot_leases::granules_of(4097), 2u);
}

} // namespace
} // namespace peercache::client
