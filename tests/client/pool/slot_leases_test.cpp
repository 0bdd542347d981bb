#include "client/pool/slot_leases.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace peercache::client {
namespace {

constexpr std::uint64_t most = 100;

/// Sets `count` pages of one granule and has a commit answered that was on its way meanwhile.
void set_during_commit(slot_leases& leases, int count) {
  slot_id slot;
  for (int i = 0; i < count; ++i)
    leases.take(1, slot);
  leases.commit_answered();
}

TEST(slot_leases, hands_out_slots_of_the_leased_size_only) {
  slot_leases leases;
  EXPECT_EQ(leases.ask_for(2, 2, most), 2u);
  leases.add(2, 2, {{10}, {20}});
  slot_id slot;
  EXPECT_FALSE(leases.take(1, slot));
  EXPECT_TRUE(leases.take(2, slot));
  EXPECT_EQ(slot, slot_id{20});
}

TEST(slot_leases, asks_for_what_is_neither_leased_nor_on_its_way) {
  slot_leases leases;
  EXPECT_EQ(leases.ask_for(2, 4, most), 4u);
  EXPECT_EQ(leases.ask_for(2, 6, most), 2u);
  leases.add(2, 4, {{1}, {2}, {3}}); // The node could not give one of the four slots.
  EXPECT_EQ(leases.ask_for(2, 6, most), 1u);
  leases.add(2, 2, {}); // The request for two slots ended with an error.
  EXPECT_EQ(leases.ask_for(2, 6, most), 2u);
}

TEST(slot_leases, returns_what_is_left_of_another_size) {
  slot_leases leases;
  leases.ask_for(2, 2, most);
  leases.add(2, 2, {{10}, {20}});
  leases.ask_for(3, 2, most);
  EXPECT_EQ(leases.add(3, 1, {{30}}), (std::vector<slot_id>{{10}, {20}}));
  EXPECT_EQ(leases.add(3, 1, {{40}}), std::vector<slot_id>{});
  slot_id slot;
  EXPECT_TRUE(leases.take(3, slot));
  EXPECT_EQ(slot, slot_id{40});
  EXPECT_TRUE(leases.take(3, slot));
  EXPECT_EQ(slot, slot_id{30});
  EXPECT_FALSE(leases.take(3, slot));
}

TEST(slot_leases, twice_what_was_wanted_during_a_commit_is_leased) {
  slot_leases leases;
  EXPECT_EQ(leases.ask_for(1, 16, most), 16u) << "nothing was wanted yet";
  set_during_commit(leases, 30);
  EXPECT_EQ(leases.ask_for(1, 16, most), 60u - 16) << "those that found no slot count as well";
}

TEST(slot_leases, no_demand_leases_more_than_may_be) {
  slot_leases leases;
  leases.ask_for(1, 1, most);
  set_during_commit(leases, 1000);
  EXPECT_EQ(leases.ask_for(1, 16, most), most - 1);
  EXPECT_EQ(leases.ask_for(1, 16, 5), 0u);
}

TEST(slot_leases, demand_is_forgotten_a_64th_with_each_commit) {
  slot_leases leases;
  leases.ask_for(1, 1, most);
  leases.add(1, 1, {});
  set_during_commit(leases, 40);
  EXPECT_EQ(leases.ask_for(1, 1, most), 80u);
  leases.add(1, 80, {});
  set_during_commit(leases, 1);
  EXPECT_EQ(leases.ask_for(1, 1, most), 78u);
  leases.add(1, 78, {});
  for (int i = 0; i < 40; ++i)
    set_during_commit(leases, 0);
  EXPECT_EQ(leases.ask_for(1, 1, most), 1u) << "all of it";
}

TEST(slot_leases, what_no_set_wants_is_given_back_but_for_those_at_rest) {
  slot_leases leases;
  leases.ask_for(1, 16, most);
  leases.add(1, 16, {});
  set_during_commit(leases, 20);
  std::vector<slot_id> slots;
  for (std::uint32_t i = 0; i < 40; ++i)
    slots.push_back({i});
  EXPECT_EQ(leases.ask_for(1, 16, most), 40u);
  leases.add(1, 40, slots);
  EXPECT_TRUE(leases.take_idle().empty()) << "sets wanted slots since the last call";
  EXPECT_EQ(leases.take_idle().size(), 24u);
  EXPECT_TRUE(leases.take_idle().empty());
  EXPECT_EQ(leases.ask_for(1, 16, most), 0u) << "16 are left, and the demand is forgotten";
}

TEST(slot_leases, wants_of_another_size_are_no_demand) {
  slot_leases leases;
  leases.ask_for(1, 1, most);
  slot_id slot;
  for (int i = 0; i < 30; ++i)
    leases.take(2, slot);
  leases.commit_answered();
  EXPECT_EQ(leases.ask_for(1, 2, most), 1u);
  set_during_commit(leases, 30);
  EXPECT_EQ(leases.ask_for(2, 4, most), 2u) << "4, of which 2 are on their way";
}

TEST(slot_leases, who_asks_for_few_leaves_the_slots_of_those_who_asked_for_many) {
  slot_leases leases;
  EXPECT_EQ(leases.ask_for(1, 20, most), 20u);
  leases.add(1, 20, std::vector<slot_id>(20));
  EXPECT_EQ(leases.ask_for(1, 4, 4), 0u);
  EXPECT_TRUE(leases.take_idle().empty());
  EXPECT_TRUE(leases.take_idle().empty());
}

TEST(slot_leases, a_page_takes_whole_granules) {
  EXPECT_EQ(limits::granules_of(1), 1u);
  EXPECT_EQ(limits::granules_of(4096), 1u);
  EXPECT_EQ(limits::granules_of(4097), 2u);
}

} // namespace
} // namespace peercache::client
