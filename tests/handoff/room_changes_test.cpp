#include "handoff/receiver_rooms.hpp"
#include "handoff/sender_rooms.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

/// Tests of `take_changes` of `sender_rooms` and `receiver_rooms`. A worker polls only rooms that
/// `take_changes` names.
namespace peercache::handoff::room_changes_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using enum room_state;

constexpr room_id number{42};
constexpr peer_id peer{1};

// -- tests of prefill's side

class sender_changes : public testing::Test {
protected:
  slot_entry entries_[8] = {};
  lease_table leases_{entries_, {7, 8}};
  sender_rooms rooms_{leases_, {}};

  sender_changes() { rooms_.connected(peer, {1, 2}); }
  send_id open(room_id room = number) {
    const auto made = rooms_.open(room, 1);
    EXPECT_TRUE(made);
    return *made;
  }
  void send(send_id id, std::vector<std::uint32_t> pages, bool last) {
    ASSERT_TRUE(rooms_.send(id, pages, last));
  }
};

TEST_F(sender_changes, each_new_state_is_told_once) {
  const auto id = open();
  EXPECT_THAT(rooms_.take_changes(), ElementsAre(id));
  EXPECT_THAT(rooms_.take_changes(), IsEmpty());
  rooms_.joined(peer, {number, {1}, 0, 2, false});
  EXPECT_THAT(rooms_.take_changes(), ElementsAre(id));
  ASSERT_TRUE(rooms_.init(id, 2));
  EXPECT_THAT(rooms_.take_changes(), IsEmpty()) << "it is waiting for input still";
  send(id, {1}, false);
  EXPECT_THAT(rooms_.take_changes(), ElementsAre(id));
  send(id, {2}, true);
  EXPECT_THAT(rooms_.take_changes(), IsEmpty());
  rooms_.finished(peer, {number, {1}, 8, 1});
  EXPECT_EQ(rooms_.poll(id), success);
  EXPECT_THAT(rooms_.take_changes(), ElementsAre(id));
  rooms_.clear(id);
  EXPECT_THAT(rooms_.take_changes(), IsEmpty());
}

TEST_F(sender_changes, many_changes_of_a_room_are_told_as_one) {
  rooms_.joined(peer, {number, {1}, 0, 2, false});
  const auto id = open();
  ASSERT_TRUE(rooms_.init(id, 2));
  send(id, {1, 2}, true);
  rooms_.abort(id, "the client has gone");
  EXPECT_THAT(rooms_.take_changes(), ElementsAre(id));
}

TEST_F(sender_changes, what_a_peer_does_to_many_rooms_is_told_of_each) {
  const auto first = open({1});
  const auto second = open({2});
  const auto other = open({3});
  rooms_.joined(peer, {{1}, {1}, 0, 2, false});
  rooms_.joined(peer, {{2}, {2}, 0, 2, false});
  rooms_.take_changes();
  rooms_.lost(peer);
  EXPECT_THAT(rooms_.take_changes(), ElementsAre(first, second));
  rooms_.abort_all("the weights change");
  EXPECT_THAT(rooms_.take_changes(), ElementsAre(other)) << "the others had failed before";
}

TEST_F(sender_changes, a_room_whose_number_comes_again_is_told_beside_the_new_one) {
  const auto first = open();
  rooms_.take_changes();
  const auto second = open();
  EXPECT_THAT(rooms_.take_changes(), ElementsAre(first, second));
}

TEST_F(sender_changes, cleared_rooms_are_not_kept_for_who_never_asks) {
  for (int i = 0; i < 1000; ++i)
    rooms_.clear(open());
  const auto id = open();
  EXPECT_THAT(rooms_.take_changes(), ElementsAre(id));
}

TEST_F(sender_changes, rooms_are_counted_by_state) {
  const auto first = open({1});
  const auto second = open({2});
  rooms_.joined(peer, {{1}, {1}, 0, 2, false});
  EXPECT_EQ(rooms_.states()[bootstrapping], 1u);
  EXPECT_EQ(rooms_.states()[waiting_for_input], 1u);
  ASSERT_TRUE(rooms_.init(first, 2));
  send(first, {1, 2}, true);
  rooms_.abort(second, "the client has gone");
  EXPECT_EQ(rooms_.states()[transferring], 1u);
  EXPECT_EQ(rooms_.states()[failed], 1u);
  rooms_.finished(peer, {{1}, {1}, 8, 1});
  EXPECT_EQ(rooms_.states()[success], 1u);
  rooms_.clear(first);
  rooms_.clear(second);
  EXPECT_EQ(rooms_.states(), rooms_by_state{});
}

// -- tests of decode's side

constexpr std::uint64_t page_bytes = 1024;

/// Returns a plan for one buffer of MLA pages and an aux row.
std::shared_ptr<const transfer_plan> plan() {
  const auto layout_at = [](std::uint64_t address) {
    kv_layout layout;
    layout.dtype = "bfloat16";
    layout.page_tokens = 1;
    layout.mla = true;
    layout.end_layer = layout.model_layers = 1;
    layout.buffers = {{address, 100 * page_bytes, page_bytes, 0}};
    layout.aux = {{address + (1 << 20), 640, 64, no_layer}};
    return layout;
  };
  auto made = transfer_plan::create(layout_at(1 << 30), layout_at(2 << 28));
  EXPECT_TRUE(made);
  return std::make_shared<transfer_plan>(std::move(*made));
}

class receiver_changes : public testing::Test {
protected:
  receiver_rooms rooms_{{}, {100}};

  void connect(room_id room = number) {
    ASSERT_TRUE(rooms_.open(room));
    ASSERT_TRUE(rooms_.connect(room, {{peer, plan()}}));
  }
  /// @param turn the id of the join for which all pages are offered
  void offer_all(std::uint64_t turn) {
    ASSERT_TRUE(rooms_.allocate(number, {0, {10, 11}, {}, 5}));
    rooms_.offered(peer, {number, {turn}, {{1}, {2}, {}}, {0, {7, 8}, true, {}, 3}}, {});
  }
};

TEST_F(receiver_changes, each_new_state_is_told_once) {
  ASSERT_TRUE(rooms_.open(number));
  EXPECT_THAT(rooms_.take_changes(), ElementsAre(number));
  EXPECT_THAT(rooms_.take_changes(), IsEmpty());
  ASSERT_TRUE(rooms_.connect(number, {{peer, plan()}}));
  EXPECT_THAT(rooms_.take_changes(), ElementsAre(number));
  offer_all(100);
  EXPECT_THAT(rooms_.take_changes(), ElementsAre(number));
  while (const auto read = rooms_.next_read())
    rooms_.finish_read(read->id, read_end::good, "", {});
  EXPECT_EQ(rooms_.poll(number), success);
  EXPECT_THAT(rooms_.take_changes(), ElementsAre(number));
  rooms_.clear(number);
  EXPECT_THAT(rooms_.take_changes(), IsEmpty());
}

TEST_F(receiver_changes, a_failure_is_told_when_it_can_be_seen) {
  connect();
  offer_all(100);
  const auto read = rooms_.next_read();
  ASSERT_TRUE(read);
  rooms_.take_changes();
  rooms_.abort(number, "the client has gone");
  EXPECT_THAT(rooms_.take_changes(), IsEmpty()) << "a read is under way";
  rooms_.finish_read(read->id, read_end::good, "", {});
  EXPECT_THAT(rooms_.take_changes(), ElementsAre(number));
}

TEST_F(receiver_changes, a_turn_that_was_cleared_says_nothing_of_the_next_one) {
  connect();
  offer_all(100);
  const auto read = rooms_.next_read();
  rooms_.clear(number);
  EXPECT_THAT(rooms_.take_changes(), IsEmpty());
  connect();
  rooms_.take_changes();
  rooms_.finish_read(read->id, read_end::failed, "cancelled", {});
  EXPECT_THAT(rooms_.take_changes(), IsEmpty());
}

TEST_F(receiver_changes, turns_are_counted_by_state_until_they_are_forgotten) {
  connect();
  EXPECT_EQ(rooms_.states()[waiting_for_input], 1u);
  offer_all(100);
  const auto read = rooms_.next_read();
  rooms_.clear(number);
  EXPECT_EQ(rooms_.states()[transferring], 1u) << "a read is under way";
  rooms_.finish_read(read->id, read_end::failed, "cancelled", {});
  EXPECT_EQ(rooms_.states(), rooms_by_state{});
  ASSERT_TRUE(rooms_.open(number));
  EXPECT_EQ(rooms_.states()[bootstrapping], 1u);
  rooms_.abort(number, "the client has gone");
  EXPECT_EQ(rooms_.states()[failed], 1u);
}

TEST_F(receiver_changes, a_lease_that_has_ended_is_a_failure_of_its_own) {
  for (const auto& [end, kind] : {std::pair(read_end::refused, failure_kind::lease),
                                  std::pair(read_end::failed, failure_kind::read)}) {
    connect();
    offer_all(kind == failure_kind::lease ? 100 : 101);
    rooms_.finish_read(rooms_.next_read()->id, end, "stale", {});
    ASSERT_TRUE(rooms_.failure(number));
    EXPECT_EQ(rooms_.failure(number)->kind, kind);
    rooms_.clear(number);
  }
}

TEST_F(receiver_changes, what_happens_to_many_rooms_is_told_of_each) {
  connect({1});
  ASSERT_TRUE(rooms_.open({2}));
  connect({3});
  rooms_.take_changes();
  rooms_.lost(peer);
  EXPECT_THAT(rooms_.take_changes(), ElementsAre(room_id{1}, room_id{3}));
  rooms_.abort_all("the weights change");
  EXPECT_THAT(rooms_.take_changes(), ElementsAre(room_id{2}));
}

TEST_F(receiver_changes, cleared_rooms_are_not_kept_for_who_never_asks) {
  for (std::uint64_t i = 0; i < 1000; ++i) {
    ASSERT_TRUE(rooms_.open({i}));
    rooms_.clear({i});
  }
  ASSERT_TRUE(rooms_.open(number));
  EXPECT_THAT(rooms_.take_changes(), ElementsAre(number));
}

} // namespace
} // namespace peercache::handoff::room_changes_test
