#include "handoff/sender_rooms.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

/// Tests of how much `sender_rooms` keeps at most.
namespace peercache::handoff::sender_bounds_test {
namespace {

using testing::HasSubstr;

constexpr peer_id alice{1}, bob{2};

class sender_bounds : public testing::Test {
protected:
  slot_entry entries_[4] = {};
  lease_table leases_{entries_, {7, 8}};
  sender_rooms rooms_{leases_, {.rooms_max = 3, .held_joins_max = 2, .held_joins_total_max = 5}};

  sender_bounds() {
    rooms_.connected(alice, {1, 2});
    rooms_.connected(bob, {2, 2});
  }
  void join_room(peer_id peer, std::uint64_t room, std::uint64_t id) {
    rooms_.joined(peer, {{room}, {id}, 0, 1, false});
  }
  /// Takes the pending message, which must be one abort. Returns its reason.
  std::string take_abort() {
    const auto said = rooms_.take_messages();
    EXPECT_EQ(said.size(), 1u);
    return said.size() == 1 ? std::get<handoff::abort>(said[0].what).reason : "";
  }
};

TEST_F(sender_bounds, held_joins_of_one_process_are_bounded) {
  for (std::uint64_t i = 1; i <= 3; ++i)
    rooms_.joined(alice, {{i}, {i}, 0, 1, false});
  EXPECT_EQ(rooms_.held_joins(), 2u);
  EXPECT_EQ(rooms_.take_messages().size(), 1u) << "an abort";
  rooms_.joined(bob, {{9}, {1}, 0, 1, false});
  EXPECT_EQ(rooms_.held_joins(), 3u) << "another process has places of its own";
  rooms_.lost(alice);
  EXPECT_EQ(rooms_.held_joins(), 1u);
}

TEST_F(sender_bounds, rooms_and_leases_are_bounded) {
  for (std::uint64_t i = 1; i <= 3; ++i)
    ASSERT_TRUE(rooms_.open({i}, 1));
  EXPECT_EQ(rooms_.open({4}, 1).error().code, errc::refused);
  slot_entry one[1] = {};
  lease_table single(one, {1, 1});
  sender_rooms rooms(single, {});
  ASSERT_TRUE(rooms.open({1}, 1));
  EXPECT_THAT(rooms.open({2}, 1).error().message, HasSubstr("all 1 leases are taken"));
}

TEST_F(sender_bounds, held_joins_of_all_processes_together_are_bounded) {
  for (std::uint64_t process = 3; process <= 7; ++process) {
    rooms_.connected({process}, {process, 2});
    join_room({process}, 1, 1);
  }
  EXPECT_EQ(rooms_.held_joins(), 5u);
  for (std::uint64_t process = 8; process <= 1000; ++process) {
    rooms_.connected({process}, {process, 2});
    join_room({process}, 1, 1);
    EXPECT_EQ(take_abort(), "too many rooms wait for prefill");
  }
  EXPECT_EQ(rooms_.held_joins(), 5u);
  join_room({3}, 1, 2);
  EXPECT_TRUE(rooms_.take_messages().empty()) << "it takes the place of the turn before";
  EXPECT_EQ(rooms_.held_joins(), 5u);
  rooms_.lost({4});
  join_room(alice, 1, 1);
  EXPECT_EQ(rooms_.held_joins(), 5u) << "there was a place again";
  ASSERT_TRUE(rooms_.open({1}, 5));
  EXPECT_EQ(rooms_.held_joins(), 0u);
}

} // namespace
} // namespace peercache::handoff::sender_bounds_test
