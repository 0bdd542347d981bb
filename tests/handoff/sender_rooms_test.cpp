#include "handoff/sender_rooms.hpp"

#include <array>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace peercache::handoff::sender_rooms_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using enum room_state;

constexpr room_id room{42};
constexpr peer_id alice{1}, bob{2};
constexpr incarnation alice_process{1, 2};

class sender : public testing::Test {
protected:
  slot_entry entries_[4] = {};
  lease_table leases_{entries_, {7, 8}};
  sender_rooms rooms_{
      leases_,
      {.rooms_max = 3, .held_joins_max = 2, .failed_rooms_kept = 2, .early_aborts_kept = 2}};
  send_id id_;

  sender() {
    rooms_.connected(alice, alice_process);
    rooms_.connected(bob, {2, 2});
  }
  void open(std::uint32_t required) {
    const auto made = rooms_.open(room, required);
    ASSERT_TRUE(made);
    id_ = *made;
  }
  static join join_of(std::uint64_t id, std::uint32_t pages = 5, bool dummy = false) {
    return {room, {id}, 3, pages, dummy};
  }
  void send(std::vector<std::uint32_t> pages, bool last) {
    ASSERT_TRUE(rooms_.send(id_, pages, last));
  }
  /// Opens the room, lets one receiver join with the id 1, and tells the room that it has five
  /// pages.
  void begin() {
    open(1);
    rooms_.joined(alice, join_of(1));
    ASSERT_TRUE(rooms_.init(id_, 5));
  }
  std::string reason() const {
    const auto failure = rooms_.failure(id_);
    return failure ? failure->reason : "it has not failed";
  }
  /// Takes and returns the pending offers; any other pending message fails the test.
  std::vector<offer> take_offers() {
    std::vector<offer> offers;
    for (auto& each : rooms_.take_messages()) {
      EXPECT_TRUE(std::holds_alternative<offer>(each.what));
      offers.push_back(std::get<offer>(each.what));
    }
    return offers;
  }
  std::vector<sender_rooms::outgoing> abort_to(peer_id peer, std::uint64_t id,
                                               const std::string& why, bool heard = false) {
    return {{peer, handoff::abort{room, {id}, why, heard}}};
  }
};

TEST_F(sender, goes_through_all_states) {
  open(1);
  EXPECT_EQ(rooms_.poll(id_), bootstrapping);
  EXPECT_FALSE(rooms_.prefix_pages(id_));
  rooms_.joined(alice, join_of(1));
  EXPECT_EQ(rooms_.poll(id_), waiting_for_input);
  EXPECT_EQ(rooms_.prefix_pages(id_), 3u);
  ASSERT_TRUE(rooms_.init(id_, 5));
  EXPECT_EQ(rooms_.poll(id_), waiting_for_input);
  send({10, 11, 12}, false);
  EXPECT_EQ(rooms_.poll(id_), transferring);
  send({13, 14}, true);
  const auto offers = take_offers();
  ASSERT_EQ(offers.size(), 2u);
  EXPECT_EQ(offers[0].pages.first_page, 3u) << "behind the receiver's prefix";
  EXPECT_EQ(offers[1].pages.first_page, 6u);
  EXPECT_THAT(offers[1].pages.pages, ElementsAre(13, 14));
  EXPECT_FALSE(offers[0].pages.last);
  EXPECT_TRUE(offers[1].pages.last);
  EXPECT_TRUE(leases_.stands(offers[1].under));
  rooms_.finished(alice, {room, {1}, 1000, 7});
  EXPECT_EQ(rooms_.poll(id_), success);
  EXPECT_FALSE(leases_.stands(offers[1].under)) << "the engine may reuse the pages";
  EXPECT_EQ(rooms_.metric(id_).bytes, 1000u);
  rooms_.clear(id_);
  EXPECT_EQ(rooms_.rooms(), 0u);
  EXPECT_THAT(rooms_.take_messages(), IsEmpty());
}

TEST_F(sender, the_last_offer_may_be_empty_and_has_the_states) {
  begin();
  send({1, 2, 3, 4, 5}, false);
  ASSERT_TRUE(rooms_.send(id_, {}, true, {{0, {9}}}, 6));
  const auto offers = take_offers();
  ASSERT_EQ(offers.size(), 2u);
  EXPECT_THAT(offers[1].pages.pages, IsEmpty());
  EXPECT_EQ(offers[1].pages.first_page, 8u);
  EXPECT_EQ(offers[1].pages.states, (std::vector<state_items>{{0, {9}}}));
  EXPECT_EQ(offers[1].pages.aux_row, 6u);
}

TEST_F(sender, a_long_chunk_is_several_offers) {
  open(1);
  constexpr auto pages = limits::offer_pages_max + 1;
  rooms_.joined(alice, join_of(1, pages));
  ASSERT_TRUE(rooms_.init(id_, pages));
  ASSERT_TRUE(rooms_.send(id_, std::vector<std::uint32_t>(pages), true, {{0, {9}}}));
  const auto offers = take_offers();
  ASSERT_EQ(offers.size(), 2u);
  EXPECT_FALSE(offers[0].pages.last);
  EXPECT_THAT(offers[0].pages.states, IsEmpty());
  EXPECT_TRUE(offers[1].pages.last);
  EXPECT_EQ(offers[1].pages.states.size(), 1u);
  EXPECT_EQ(offers[1].pages.pages.size(), 1u);
}

TEST_F(sender, waits_for_all_receivers_to_join_and_to_be_done) {
  open(2);
  rooms_.joined(alice, join_of(1));
  EXPECT_EQ(rooms_.poll(id_), bootstrapping);
  rooms_.joined(bob, join_of(9));
  ASSERT_TRUE(rooms_.init(id_, 5));
  send({1, 2, 3, 4, 5}, true);
  EXPECT_EQ(take_offers().size(), 2u);
  rooms_.finished(alice, {room, {1}, 10, 3});
  rooms_.finished(alice, {room, {1}, 10, 3});
  EXPECT_EQ(rooms_.poll(id_), transferring) << "said twice by the same one";
  rooms_.finished(bob, {room, {9}, 10, 8});
  EXPECT_EQ(rooms_.poll(id_), success);
  EXPECT_EQ(rooms_.metric(id_).bytes, 20u);
  EXPECT_EQ(rooms_.metric(id_).microseconds, 8u);
}

TEST_F(sender, dummies_join_and_are_done_without_an_offer) {
  open(1);
  rooms_.joined(alice, join_of(1, 0, true));
  ASSERT_TRUE(rooms_.init(id_, 5));
  send({1, 2}, false);
  EXPECT_EQ(rooms_.poll(id_), transferring);
  send({3, 4, 5}, true);
  rooms_.finished(alice, {room, {1}});
  EXPECT_EQ(rooms_.poll(id_), success);
  EXPECT_THAT(rooms_.take_messages(), IsEmpty()) << "a dummy gets no offers";
}

TEST_F(sender, an_abort_revokes_the_lease_before_it_returns) {
  begin();
  send({1}, false);
  const auto under = take_offers()[0].under;
  rooms_.abort(id_, "the client has gone", failure_kind::another_rank);
  EXPECT_FALSE(leases_.stands(under));
  EXPECT_EQ(rooms_.poll(id_), failed);
  EXPECT_EQ(rooms_.failure(id_), (room_failure{"the client has gone", failure_kind::another_rank}));
  EXPECT_EQ(rooms_.take_messages(), abort_to(alice, 1, "the client has gone", true));
  rooms_.abort(id_, "again");
  EXPECT_EQ(reason(), "the client has gone");
}

TEST_F(sender, a_clear_revokes_the_lease_before_it_returns) {
  begin();
  send({1}, false);
  const auto under = take_offers()[0].under;
  rooms_.clear(id_);
  EXPECT_FALSE(leases_.stands(under));
  EXPECT_EQ(leases_.taken(), 0u);
  EXPECT_EQ(rooms_.take_messages().size(), 1u) << "the receiver hears of it";
  EXPECT_EQ(rooms_.poll(id_), failed);
}

TEST_F(sender, memory_that_is_given_back_fails_all_rooms) {
  begin();
  const auto other = rooms_.open({43}, 1);
  ASSERT_TRUE(other);
  rooms_.abort_all("the weights change");
  EXPECT_EQ(leases_.taken(), 0u);
  EXPECT_EQ(rooms_.poll(id_), failed);
  EXPECT_EQ(rooms_.poll(*other), failed);
}

TEST_F(sender, ends_are_final) {
  begin();
  send({1, 2, 3, 4, 5}, true);
  rooms_.finished(alice, {room, {1}, 0, 0});
  rooms_.abort(id_, "too late");
  rooms_.aborted(alice, {room, {1}, "too late"});
  rooms_.lost(alice);
  EXPECT_EQ(rooms_.poll(id_), success);
  rooms_.clear(id_);
  rooms_.connected(alice, alice_process);
  open(1);
  rooms_.abort(id_, "first");
  rooms_.joined(alice, join_of(2));
  rooms_.finished(alice, {room, {1}, 0, 0});
  EXPECT_FALSE(rooms_.init(id_, 5));
  EXPECT_FALSE(rooms_.send(id_, {}, true));
  EXPECT_EQ(rooms_.poll(id_), failed);
}

TEST_F(sender, a_receiver_that_aborts_or_is_lost_fails_the_room) {
  begin();
  rooms_.aborted(alice, {room, {2}, "another turn"});
  rooms_.aborted(bob, {room, {1}, "a stranger"});
  rooms_.lost(bob);
  EXPECT_EQ(rooms_.poll(id_), waiting_for_input);
  rooms_.aborted(alice, {room, {1}, "no room left"});
  EXPECT_EQ(reason(), "decode has aborted: no room left");
  rooms_.clear(id_);
  begin();
  rooms_.lost(alice);
  EXPECT_EQ(reason(), "the connection to decode has ended");
}

TEST_F(sender, pages_that_do_not_fit_fail_the_room) {
  begin();
  EXPECT_FALSE(rooms_.send(id_, std::vector<std::uint32_t>(6), false));
  EXPECT_THAT(reason(), HasSubstr("sends 6 pages and has said 5"));
  rooms_.clear(id_);
  begin();
  EXPECT_FALSE(rooms_.send(id_, std::vector<std::uint32_t>(4), true)) << "one is missing";
  EXPECT_EQ(rooms_.poll(id_), failed);
  rooms_.clear(id_);
  begin();
  send({1, 2, 3, 4, 5}, true);
  EXPECT_FALSE(rooms_.send(id_, {}, true)) << "behind the last ones";
  EXPECT_EQ(rooms_.poll(id_), failed);
  rooms_.clear(id_);
  open(1);
  rooms_.joined(alice, join_of(1, 4));
  ASSERT_TRUE(rooms_.init(id_, 5));
  EXPECT_THAT(reason(), HasSubstr("5 pages and decode has allocated 4"));
}

TEST_F(sender, states_that_no_offer_can_have_fail_the_room) {
  const auto fails = [this](bool last, std::vector<state_items> states, std::string_view why) {
    begin();
    const std::vector<std::uint32_t> pages(last ? 5 : 1);
    EXPECT_EQ(rooms_.send(id_, pages, last, std::move(states)).error().code,
              errc::invalid_argument);
    EXPECT_THAT(reason(), HasSubstr(why));
    rooms_.clear(id_);
  };
  fails(false, {{0, {9}}}, "before the last pages");
  fails(true, std::vector<state_items>(limits::state_components_max + 1), "9 components");
  fails(true, {{0, std::vector<std::uint32_t>(limits::room_pages_max + 1)}}, "1048577 items");
}

TEST_F(sender, a_number_that_failed_again_is_remembered_from_then_on) {
  const auto fail_and_clear = [this](room_id number) {
    const auto made = rooms_.open(number, 1);
    ASSERT_TRUE(made);
    rooms_.abort(*made, "over");
    rooms_.clear(*made);
  };
  // `rooms_` remembers two failed numbers: 42 and 2.
  for (const std::uint64_t number : {42, 1, 42, 2})
    fail_and_clear({number});
  rooms_.joined(alice, join_of(1));
  EXPECT_EQ(rooms_.held_joins(), 0u) << "it is answered, not held";
  EXPECT_THAT(rooms_.take_messages(), testing::SizeIs(1));
}

TEST_F(sender, nothing_is_sent_before_its_time) {
  EXPECT_FALSE(rooms_.send(id_, {}, true));
  open(1);
  EXPECT_FALSE(rooms_.send(id_, {}, true));
  rooms_.joined(alice, join_of(1));
  EXPECT_FALSE(rooms_.send(id_, {}, true)) << "before init";
  ASSERT_TRUE(rooms_.init(id_, 5));
  EXPECT_FALSE(rooms_.init(id_, 5));
  EXPECT_EQ(rooms_.poll(id_), waiting_for_input);
  EXPECT_FALSE(rooms_.open({1}, 0)) << "for nobody";
}

TEST_F(sender, each_wrong_init_has_a_sentence_of_its_own) {
  const auto why = [this](std::uint32_t pages) {
    const auto said = rooms_.init(id_, pages);
    EXPECT_EQ(said.error().code, errc::invalid_argument);
    return said.error().message;
  };
  EXPECT_THAT(why(5), HasSubstr("has no open room"));
  open(1);
  EXPECT_THAT(why(limits::room_pages_max + 1),
              HasSubstr("is to send 1048577 pages, and a room has at most 1048576"));
  ASSERT_TRUE(rooms_.init(id_, 5)) << "what was wrong has changed nothing";
  EXPECT_THAT(why(5), HasSubstr("was told the number of its pages before"));
  EXPECT_EQ(rooms_.poll(id_), bootstrapping);
  rooms_.abort(id_, "over");
  EXPECT_THAT(why(5), HasSubstr("of a room that has ended"));
}

TEST_F(sender, receivers_that_do_not_belong_together_fail_the_room) {
  open(1);
  rooms_.joined(alice, join_of(1));
  rooms_.joined(bob, join_of(2));
  EXPECT_THAT(reason(), HasSubstr("more receivers"));
  rooms_.clear(id_);
  open(2);
  rooms_.joined(alice, join_of(1));
  auto other = join_of(2);
  other.prefix_pages = 4;
  rooms_.joined(bob, other);
  EXPECT_THAT(reason(), HasSubstr("different prefixes"));
  rooms_.clear(id_);
  begin();
  send({1}, false);
  rooms_.finished(alice, {room, {1}, 0, 0});
  EXPECT_THAT(reason(), HasSubstr("before the last pages"));
}

TEST_F(sender, learns_from_the_joins_how_many_there_will_be) {
  auto said = join_of(1);
  said.receivers = 2;
  id_ = *rooms_.open(room);
  rooms_.joined(alice, said);
  EXPECT_EQ(rooms_.poll(id_), bootstrapping);
  EXPECT_FALSE(rooms_.prefix_pages(id_));
  rooms_.joined(bob, said);
  EXPECT_EQ(rooms_.poll(id_), waiting_for_input);
  id_ = *rooms_.open({43});
  rooms_.joined(alice, {{43}, {2}, 3, 5, false, 2});
  rooms_.joined(bob, {{43}, {2}, 3, 5, false, 3});
  EXPECT_THAT(reason(), HasSubstr("do not agree"));
}

TEST_F(sender, a_join_may_come_before_its_room) {
  rooms_.joined(alice, join_of(1));
  EXPECT_EQ(rooms_.held_joins(), 1u);
  open(1);
  EXPECT_EQ(rooms_.held_joins(), 0u);
  EXPECT_EQ(rooms_.poll(id_), waiting_for_input);
}

TEST_F(sender, a_held_join_that_is_given_up_joins_nothing) {
  rooms_.joined(alice, join_of(1));
  rooms_.aborted(alice, {room, {7}, "another turn"});
  EXPECT_EQ(rooms_.held_joins(), 1u);
  rooms_.aborted(alice, {room, {1}, "no pages"});
  rooms_.joined(bob, join_of(5));
  rooms_.lost(bob);
  EXPECT_EQ(rooms_.held_joins(), 0u);
  open(1);
  EXPECT_EQ(reason(), "decode has aborted: no pages") << "nobody would ever end this room";
  EXPECT_EQ(leases_.taken(), 0u);
  EXPECT_THAT(rooms_.take_messages(), IsEmpty());
}

TEST_F(sender, a_newer_turn_takes_the_place_of_a_held_join) {
  rooms_.joined(alice, join_of(1));
  rooms_.joined(alice, join_of(2));
  EXPECT_EQ(rooms_.held_joins(), 1u);
  open(1);
  ASSERT_TRUE(rooms_.init(id_, 5));
  send({1}, false);
  EXPECT_EQ(take_offers()[0].id, join_id{2});
}

TEST_F(sender, a_room_that_failed_is_not_revived_by_a_late_join) {
  open(1);
  rooms_.abort(id_, "aborted");
  rooms_.joined(alice, join_of(1));
  EXPECT_EQ(rooms_.take_messages(), abort_to(alice, 1, "the room has failed at prefill"));
  rooms_.clear(id_);
  rooms_.joined(alice, join_of(1));
  EXPECT_EQ(rooms_.take_messages(), abort_to(alice, 1, "the room has failed at prefill"));
  EXPECT_EQ(rooms_.held_joins(), 0u);
  begin();
  EXPECT_EQ(rooms_.poll(id_), waiting_for_input) << "the same number is another room now";
}

TEST_F(sender, the_same_room_again_has_another_lease_and_takes_no_late_message) {
  begin();
  send({1, 2, 3, 4, 5}, true);
  const auto first = take_offers()[0].under;
  rooms_.finished(alice, {room, {1}, 0, 0});
  rooms_.joined(alice, join_of(2)); // Decode joins before prefill's engine has opened the room.
  rooms_.clear(id_);
  open(1);
  ASSERT_TRUE(rooms_.init(id_, 5));
  send({1, 2, 3, 4, 5}, true);
  const auto offers = take_offers();
  EXPECT_EQ(offers[0].id, join_id{2});
  EXPECT_NE(offers[0].under.key, first.key);
  rooms_.finished(alice, {room, {1}, 0, 0});
  rooms_.aborted(alice, {room, {1}, "late"});
  EXPECT_EQ(rooms_.poll(id_), transferring);
}

} // namespace
} // namespace peercache::handoff::sender_rooms_test
