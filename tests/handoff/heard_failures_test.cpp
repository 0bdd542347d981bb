#include "handoff/sender_rooms.hpp"

#include <gtest/gtest.h>
#include <map>

/// Tests of aborts whose sender only heard of the failure, which began elsewhere, and of the state
/// in which such aborts leave a room.
namespace peercache::handoff::heard_failures_test {
namespace {

constexpr room_id room{42};
constexpr peer_id alice{1}, bob{2};

class heard_failures : public testing::Test {
protected:
  slot_entry entries_[2] = {};
  lease_table leases_{entries_, {7, 8}};
  sender_rooms rooms_{leases_, {}};

  heard_failures() {
    rooms_.connected(alice, {1, 1});
    rooms_.connected(bob, {2, 2});
  }
  send_id open(std::uint32_t required) {
    const auto made = rooms_.open(room, required);
    EXPECT_TRUE(made);
    return *made;
  }
  static join join_of(std::uint64_t id) { return {room, {id}, 0, 2, false}; }
  /// Takes the pending aborts. Returns for each receiver whether its abort says that the sender
  /// only heard of the failure.
  std::map<peer_id, bool> take_heard() {
    std::map<peer_id, bool> heard;
    for (const auto& each : rooms_.take_messages())
      heard[each.to] = std::get<handoff::abort>(each.what).heard;
    return heard;
  }
};

using heard_by = std::map<peer_id, bool>;

TEST_F(heard_failures, receivers_are_told_whether_the_failure_began_at_prefill) {
  for (const bool began_elsewhere : {false, true}) {
    const auto id = open(1);
    rooms_.joined(bob, join_of(began_elsewhere ? 2 : 1));
    rooms_.abort(id, "no memory",
                 began_elsewhere ? failure_kind::another_rank : failure_kind::aborted);
    EXPECT_EQ(take_heard(), (heard_by{{bob, began_elsewhere}}));
    rooms_.clear(id);
  }
}

TEST_F(heard_failures, what_one_receiver_has_told_the_others_only_hear) {
  const auto id = open(2);
  rooms_.joined(alice, join_of(1));
  rooms_.joined(bob, join_of(9));
  rooms_.aborted(alice, {room, {1}, "no memory", false});
  EXPECT_EQ(rooms_.failure(id)->kind, failure_kind::peer_aborted);
  EXPECT_TRUE(take_heard().at(bob)) << "alice tells why";
}

TEST_F(heard_failures, a_room_whose_receiver_has_only_heard_of_it_need_not_tell_why) {
  const auto id = open(1);
  rooms_.joined(alice, join_of(1));
  rooms_.aborted(alice, {room, {1}, "another rank", true});
  EXPECT_TRUE(rooms_.failure(id)->from_another_rank());
}

TEST_F(heard_failures, who_joins_a_failed_room_is_told_too) {
  std::uint64_t turn = 1;
  for (const auto kind : {failure_kind::aborted, failure_kind::another_rank})
    for (const bool cleared : {false, true}) {
      const auto id = open(1);
      rooms_.abort(id, "why", kind);
      if (cleared)
        rooms_.clear(id);
      rooms_.joined(alice, join_of(turn++));
      EXPECT_EQ(take_heard(), (heard_by{{alice, kind == failure_kind::another_rank}}));
      rooms_.clear(id);
    }
}

} // namespace
} // namespace peercache::handoff::heard_failures_test
