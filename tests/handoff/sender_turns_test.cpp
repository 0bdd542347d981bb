#include "handoff/sender_rooms.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

/// Tests of a room number that is used again: what `sender_rooms` does with joins, ends and aborts
/// of each use.
namespace peercache::handoff::sender_turns_test {
namespace {

using testing::IsEmpty;
using testing::SizeIs;
using enum room_state;

constexpr room_id number{42};
constexpr peer_id alice{1}, bob{2}, alice_again{3};
constexpr incarnation alice_process{1, 1}, bob_process{2, 2};

class sender_turns : public testing::Test {
protected:
  slot_entry entries_[4] = {};
  lease_table leases_{entries_, {7, 8}};
  sender_rooms rooms_{leases_,
                      {.failed_rooms_kept = 2, .early_aborts_kept = 2, .given_up_kept = 2}};

  sender_turns() {
    rooms_.connected(alice, alice_process);
    rooms_.connected(bob, bob_process);
  }
  send_id open(std::uint32_t required = 1) {
    const auto made = rooms_.open(number, required);
    EXPECT_TRUE(made);
    return *made;
  }
  static join join_of(std::uint64_t id, bool dummy = false) { return {number, {id}, 0, 2, dummy}; }
  void send_all(send_id id) {
    ASSERT_TRUE(rooms_.init(id, 2));
    ASSERT_TRUE(rooms_.send(id, std::vector<std::uint32_t>{4, 5}, true));
  }
  /// Takes the pending messages, which must be offers. Returns the ids of their joins.
  std::vector<std::uint64_t> take_offers() {
    std::vector<std::uint64_t> ids;
    for (const auto& each : rooms_.take_messages())
      if (const auto* said = std::get_if<offer>(&each.what))
        ids.push_back(said->id.value);
      else
        ADD_FAILURE() << "no offer";
    return ids;
  }
  /// Takes the pending messages, which must be aborts. Returns the ids of their joins.
  std::vector<std::uint64_t> take_aborts() {
    std::vector<std::uint64_t> ids;
    for (const auto& each : rooms_.take_messages())
      if (const auto* said = std::get_if<handoff::abort>(&each.what))
        ids.push_back(said->id.value);
      else
        ADD_FAILURE() << "no abort";
    return ids;
  }
  std::string reason(send_id id) const {
    const auto failure = rooms_.failure(id);
    return failure ? failure->reason : "it has not failed";
  }
};

TEST_F(sender_turns, a_join_again_never_enters_the_room_of_the_turn_before) {
  const auto first = open(2);
  rooms_.joined(alice, join_of(1));
  rooms_.joined(bob, join_of(1));
  send_all(first);
  take_offers();
  rooms_.finished(alice, {number, {1}, 10, 1});
  rooms_.joined(alice, join_of(2));
  EXPECT_EQ(rooms_.held_joins(), 1u);
  EXPECT_EQ(rooms_.poll(first), transferring) << "bob is not done";
  EXPECT_THAT(rooms_.take_messages(), IsEmpty());
  rooms_.finished(bob, {number, {1}, 10, 1});
  EXPECT_EQ(rooms_.poll(first), success);
  rooms_.joined(bob, join_of(2));
  EXPECT_EQ(rooms_.held_joins(), 2u);
  rooms_.clear(first);
  const auto second = open(2);
  EXPECT_EQ(rooms_.held_joins(), 0u);
  send_all(second);
  EXPECT_EQ(take_offers(), (std::vector<std::uint64_t>{2, 2}));
}

TEST_F(sender_turns, a_join_again_fails_a_room_whose_receiver_is_not_done) {
  const auto first = open();
  rooms_.joined(alice, join_of(1));
  rooms_.joined(alice, join_of(2));
  EXPECT_EQ(reason(first), "decode has begun the room again before it was done");
  EXPECT_EQ(leases_.taken(), 0u);
  EXPECT_EQ(take_aborts(), std::vector<std::uint64_t>{1});
  EXPECT_EQ(rooms_.held_joins(), 1u) << "it is of the next turn";
  rooms_.clear(first);
  EXPECT_EQ(rooms_.poll(open()), waiting_for_input);
}

TEST_F(sender_turns, a_dummy_that_is_done_may_join_again) {
  const auto first = open();
  rooms_.joined(alice, join_of(1, true));
  rooms_.finished(alice, done{number, {1}});
  rooms_.joined(alice, join_of(2, true));
  EXPECT_EQ(rooms_.poll(first), waiting_for_input) << "its last pages are not sent yet";
  send_all(first);
  EXPECT_EQ(rooms_.poll(first), success);
  EXPECT_EQ(rooms_.held_joins(), 1u);
  rooms_.finished(alice, done{number, {2}});
  rooms_.clear(first);
  const auto second = open();
  send_all(second);
  EXPECT_EQ(rooms_.poll(second), success) << "decode was done before the room was opened";
}

/// A late join of the number's earlier use comes first and fails the room; then the dummy's own
/// join comes. Neither may stay.
TEST_F(sender_turns, a_late_join_of_a_dummy_leaves_no_join_behind) {
  for (const bool cleared : {false, true}) {
    const auto room = open();
    const std::uint64_t late = cleared ? 3 : 1;
    rooms_.joined(alice, join_of(late, true));
    send_all(room);
    EXPECT_EQ(rooms_.poll(room), transferring) << "the dummy's turn is not over";
    rooms_.aborted(alice, handoff::abort{number, {late}, "the client has gone"});
    if (cleared)
      rooms_.clear(room);
    rooms_.joined(alice, join_of(late + 1, true));
    EXPECT_EQ(rooms_.held_joins(), 1u);
    rooms_.finished(alice, done{number, {late + 1}});
    EXPECT_EQ(rooms_.held_joins(), 0u);
    rooms_.clear(room);
  }
}

TEST_F(sender_turns, a_join_of_an_earlier_turn_changes_nothing) {
  const auto room = open();
  rooms_.joined(alice, join_of(5));
  for (std::uint64_t id : {4, 5}) {
    rooms_.joined(alice, join_of(id));
    EXPECT_EQ(take_aborts(), std::vector<std::uint64_t>{id});
  }
  EXPECT_EQ(rooms_.poll(room), waiting_for_input);
  rooms_.clear(room);
  take_aborts();
  rooms_.joined(alice, join_of(7));
  rooms_.joined(alice, join_of(6));
  EXPECT_EQ(take_aborts(), std::vector<std::uint64_t>{6});
  EXPECT_EQ(rooms_.held_joins(), 1u);
}

TEST_F(sender_turns, a_number_that_is_opened_again_fails_the_turn_before) {
  const auto first = open();
  rooms_.joined(alice, join_of(1));
  send_all(first);
  take_offers();
  const auto second = open();
  EXPECT_EQ(reason(first), "its number came again");
  EXPECT_EQ(take_aborts(), std::vector<std::uint64_t>{1});
  EXPECT_EQ(leases_.taken(), 1u);
  rooms_.finished(alice, {number, {1}, 10, 1});
  rooms_.aborted(alice, {number, {1}, "late"});
  EXPECT_EQ(rooms_.poll(second), bootstrapping) << "both are of the turn before";
  rooms_.joined(alice, join_of(2));
  rooms_.clear(first);
  EXPECT_EQ(rooms_.poll(second), waiting_for_input);
  EXPECT_EQ(rooms_.rooms(), 1u);
  send_all(second);
  EXPECT_EQ(take_offers(), std::vector<std::uint64_t>{2});
}

TEST_F(sender_turns, a_success_stays_when_its_number_is_opened_again) {
  const auto first = open();
  rooms_.joined(alice, join_of(1));
  send_all(first);
  rooms_.finished(alice, {number, {1}, 10, 1});
  const auto second = open();
  EXPECT_EQ(rooms_.poll(first), success);
  rooms_.clear(second);
  EXPECT_EQ(rooms_.poll(first), success);
  rooms_.clear(first);
  EXPECT_EQ(rooms_.rooms(), 0u);
}

TEST_F(sender_turns, to_clear_a_superseded_room_changes_nothing_for_the_new_one) {
  const auto first = open(2);
  rooms_.joined(alice, join_of(1));
  const auto second = open();
  take_aborts();
  rooms_.joined(alice, join_of(2));
  send_all(second);
  // A join that is held until a third room with this number is opened.
  rooms_.joined(alice, join_of(3));
  EXPECT_EQ(rooms_.poll(second), failed) << "alice has begun again";
  const auto third = open();
  send_all(third);
  rooms_.take_messages();
  rooms_.take_changes();
  for (const auto before : {second, first}) {
    rooms_.clear(before);
    EXPECT_EQ(rooms_.poll(before), failed);
    EXPECT_THAT(rooms_.take_messages(), IsEmpty());
    EXPECT_THAT(rooms_.take_changes(), IsEmpty());
    EXPECT_EQ(rooms_.poll(third), transferring);
    EXPECT_EQ(leases_.taken(), 1u);
  }
  rooms_.finished(alice, {number, {3}, 10, 1});
  EXPECT_EQ(rooms_.poll(third), success) << "what receivers say is for it still";
}

TEST_F(sender_turns, a_superseded_room_that_failed_answers_no_late_join) {
  const auto first = open();
  rooms_.joined(alice, join_of(1));
  const auto second = open();
  EXPECT_EQ(rooms_.poll(first), failed);
  take_aborts();
  rooms_.joined(alice, join_of(2));
  send_all(second);
  rooms_.finished(alice, {number, {2}, 10, 1});
  EXPECT_EQ(rooms_.poll(second), success);
  rooms_.take_messages();
  rooms_.clear(second);
  rooms_.clear(first);
  rooms_.joined(bob, join_of(1));
  EXPECT_THAT(rooms_.take_messages(), IsEmpty());
  EXPECT_EQ(rooms_.held_joins(), 1u) << "the last room of this number succeeded";
}

TEST_F(sender_turns, a_superseded_room_counts_until_it_is_cleared) {
  sender_rooms rooms(leases_, {.rooms_max = 2});
  const auto first = rooms.open(number, 1);
  ASSERT_TRUE(first && rooms.open(number, 1));
  EXPECT_EQ(rooms.open({43}, 1).error().code, errc::refused);
  rooms.clear(*first);
  EXPECT_TRUE(rooms.open({43}, 1));
}

TEST_F(sender_turns, a_join_that_was_aborted_before_it_came_is_refused) {
  rooms_.connected(alice_again, alice_process);
  rooms_.aborted(alice_again, {number, {1}, "over another connection"});
  rooms_.joined(alice, join_of(1));
  EXPECT_EQ(take_aborts(), std::vector<std::uint64_t>{1});
  EXPECT_EQ(rooms_.held_joins(), 0u);
  rooms_.joined(bob, join_of(1));
  EXPECT_EQ(rooms_.held_joins(), 1u) << "the ids of another process are others";
  rooms_.joined(alice, join_of(2));
  EXPECT_EQ(rooms_.held_joins(), 2u) << "another turn";
}

TEST_F(sender_turns, aborts_without_a_join_are_remembered_within_a_limit) {
  for (std::uint64_t id = 1; id <= 3; ++id)
    rooms_.aborted(alice, {number, {id}, ""});
  const auto room = open();
  rooms_.joined(alice, join_of(3));
  EXPECT_EQ(take_aborts(), std::vector<std::uint64_t>{3});
  rooms_.joined(alice, join_of(1));
  EXPECT_EQ(rooms_.poll(room), waiting_for_input) << "the oldest has been forgotten";
}

TEST_F(sender_turns, an_abort_of_a_turn_that_is_known_is_not_kept) {
  const auto room = open();
  rooms_.joined(alice, join_of(1));
  rooms_.clear(room);
  rooms_.aborted(alice, {number, {1}, "the answer to prefill's own"});
  EXPECT_EQ(take_aborts(), std::vector<std::uint64_t>{1});
  open();
  rooms_.joined(alice, join_of(1));
  EXPECT_THAT(rooms_.take_messages(), IsEmpty());
}

TEST_F(sender_turns, after_a_failure_the_next_turn_of_a_participant_is_held) {
  const auto first = open(2);
  rooms_.joined(alice, join_of(1));
  rooms_.abort(first, "the client has gone");
  take_aborts();
  rooms_.joined(alice, join_of(2));
  EXPECT_EQ(rooms_.held_joins(), 1u);
  rooms_.joined(bob, join_of(1));
  EXPECT_EQ(take_aborts(), std::vector<std::uint64_t>{1}) << "bob comes too late for the first";
  rooms_.clear(first);
  rooms_.joined(alice, join_of(3));
  rooms_.joined(bob, join_of(2));
  EXPECT_THAT(rooms_.take_messages(), IsEmpty());
  EXPECT_EQ(rooms_.poll(open(2)), waiting_for_input);
}

TEST_F(sender_turns, a_receiver_joins_over_a_connection_that_follows_another) {
  const auto room = open();
  rooms_.joined(alice, join_of(1));
  rooms_.connected(alice_again, alice_process);
  rooms_.joined(alice_again, join_of(2));
  EXPECT_EQ(rooms_.poll(room), failed);
  rooms_.clear(room);
  take_aborts();
  rooms_.lost(alice);
  EXPECT_EQ(rooms_.held_joins(), 1u) << "that came over the new one";
  const auto again = open();
  send_all(again);
  const auto said = rooms_.take_messages();
  ASSERT_THAT(said, SizeIs(1));
  EXPECT_EQ(said[0].to, alice_again);
}

TEST_F(sender_turns, a_room_whose_held_join_ended_fails_when_it_is_opened) {
  rooms_.joined(alice, join_of(1));
  rooms_.joined(bob, join_of(1));
  rooms_.lost(alice);
  EXPECT_EQ(rooms_.held_joins(), 1u) << "nobody knows which turn of alice's is bob's";
  const auto first = open(2);
  EXPECT_EQ(reason(first), "the connection to decode has ended");
  EXPECT_EQ(rooms_.failure(first)->kind, failure_kind::peer_lost);
  EXPECT_EQ(take_aborts(), (std::vector<std::uint64_t>{1})) << "bob is told";
  rooms_.connected(alice_again, alice_process);
  rooms_.joined(alice_again, join_of(2));
  rooms_.joined(bob, join_of(2));
  EXPECT_EQ(rooms_.held_joins(), 2u);
  EXPECT_EQ(rooms_.poll(open(2)), waiting_for_input) << "the next turn knows nothing of that";
}

TEST_F(sender_turns, a_receiver_that_joins_again_takes_back_that_it_gave_up) {
  rooms_.joined(alice, join_of(1));
  rooms_.aborted(alice, {number, {1}, "no pages"});
  rooms_.joined(alice, join_of(2));
  EXPECT_EQ(rooms_.poll(open()), waiting_for_input);
}

TEST_F(sender_turns, an_older_join_or_one_that_is_refused_takes_nothing_back) {
  rooms_.joined(alice, join_of(2));
  rooms_.aborted(alice, {number, {2}, "no pages"});
  rooms_.joined(alice, join_of(1));
  EXPECT_EQ(reason(open()), "decode has aborted: no pages");
}

TEST_F(sender_turns, a_turn_that_ended_before_it_was_opened_does_not_touch_the_room_before) {
  const auto first = open();
  rooms_.joined(alice, join_of(1));
  send_all(first);
  take_offers();
  rooms_.finished(alice, {number, {1}, 10, 1});
  rooms_.joined(alice, join_of(2));
  rooms_.aborted(alice, {number, {2}, "no pages"});
  EXPECT_EQ(rooms_.poll(first), success);
  rooms_.clear(first);
  const auto second = open();
  EXPECT_EQ(reason(second), "decode has aborted: no pages");
  rooms_.clear(second);
  EXPECT_EQ(rooms_.poll(open()), bootstrapping) << "it was said of one room";
}

TEST_F(sender_turns, numbers_whose_held_joins_ended_are_bounded) {
  for (std::uint64_t each = 1; each <= 3; ++each) {
    rooms_.joined(alice, {{each}, {each}, 0, 2});
    rooms_.aborted(alice, {{each}, {each}, ""});
  }
  EXPECT_EQ(rooms_.poll(*rooms_.open({1})), bootstrapping) << "the oldest is forgotten";
  EXPECT_EQ(rooms_.poll(*rooms_.open({2})), failed);
  EXPECT_EQ(rooms_.poll(*rooms_.open({3})), failed);
}

} // namespace
} // namespace peercache::handoff::sender_turns_test
