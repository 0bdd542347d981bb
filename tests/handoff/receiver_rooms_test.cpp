#include "common/test_guards.hpp"
#include "handoff/receiver_rooms.hpp"

#include <cstdio>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numeric>

namespace peercache::handoff::receiver_rooms_test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using enum room_state;
using namespace std::chrono_literals;

constexpr room_id room{42};
constexpr peer_id alice{1}, bob{2}, carol{3};
constexpr receiver_rooms::time_point start{};
constexpr std::uint64_t page_bytes = 1024;

/// Returns a layout with one buffer of MLA pages and an aux row of 64 bytes.
kv_layout layout_of(std::uint64_t address, worker_ranks ranks) {
  kv_layout layout;
  layout.dtype = "bfloat16";
  layout.page_tokens = 1;
  layout.mla = true;
  layout.end_layer = layout.model_layers = 2;
  layout.ranks = ranks;
  layout.buffers = {{address, 100 * page_bytes, page_bytes, 0}};
  layout.aux = {{address + (1 << 20), 640, 64, no_layer}};
  return layout;
}

/// Returns the plan for reads from a worker of prefill (two pipeline stages, two TP ranks). Worker
/// alice has layer 1, bob layer 2 and the aux row; carol is a dummy, which sends nothing.
std::shared_ptr<const transfer_plan> plan_of(peer_id peer) {
  auto source = layout_of(1 << 30, {peer == carol ? 1u : 0u, 2, peer == alice ? 0u : 1u, 2, 0, 1});
  source.first_layer = peer == alice ? 0 : 1;
  source.end_layer = source.first_layer + 1;
  source.buffers[0].layer = source.first_layer;
  auto destination = layout_of(2 << 29, {0, 1, 0, 1, 0, 1});
  destination.buffers.push_back({3 << 28, 100 * page_bytes, page_bytes, 1});
  auto plan = transfer_plan::create(source, destination);
  EXPECT_TRUE(plan) << plan.error().message;
  return std::make_shared<transfer_plan>(std::move(*plan));
}

receiver_rooms::options small() {
  receiver_rooms::options opts;
  opts.rooms_max = 3;
  opts.offers_waiting_max = 2;
  opts.wire_bytes_max = 4 * page_bytes;
  return opts;
}

lease lease_of(peer_id peer) {
  return {{static_cast<std::uint32_t>(peer.value)}, {2}, {}};
}

class receiver : public testing::Test {
protected:
  receiver_rooms rooms_{small(), {100}};
  std::uint64_t next_turn_ = 100;

  void connect(room_id id = room) {
    ASSERT_TRUE(rooms_.open(id));
    std::vector<receiver_rooms::source> sources;
    for (auto peer : {alice, bob, carol})
      sources.push_back({peer, plan_of(peer)});
    ASSERT_TRUE(rooms_.connect(id, sources));
  }
  /// Opens the room, whose join has the id 100, and allocates four pages after a prefix of two.
  void begin(room_id id = room) {
    connect(id);
    ASSERT_TRUE(rooms_.allocate(id, {2, {10, 11, 12, 13}, {}, 5}));
    rooms_.take_actions();
  }
  void offer_pages(peer_id peer, std::uint32_t first, std::vector<std::uint32_t> pages, bool last,
                   std::uint64_t id = 100) {
    rooms_.offered(peer, {room, {id}, lease_of(peer), {first, std::move(pages), last, {}, 3}},
                   start);
  }
  /// Makes the workers alice and bob offer all their pages for the join `id`.
  void offer_all(std::uint64_t id = 100) {
    for (auto peer : {alice, bob})
      offer_pages(peer, 2, {7, 8, 9, 10}, true, id);
  }
  void finish(const read_order& read, bool good = true) {
    rooms_.finish_read(read.id, good ? read_end::good : read_end::refused, "stale", start + 5us);
  }
  std::string reason() const {
    const auto failure = rooms_.failure(room);
    return failure ? failure->reason : "it has not failed";
  }
};

TEST_F(receiver, goes_through_all_states) {
  ASSERT_TRUE(rooms_.open(room));
  EXPECT_EQ(rooms_.poll(room), bootstrapping);
  ASSERT_TRUE(rooms_.connect(
      room, {{alice, plan_of(alice)}, {bob, plan_of(bob)}, {carol, plan_of(carol)}}));
  EXPECT_EQ(rooms_.poll(room), waiting_for_input);
  ASSERT_TRUE(rooms_.allocate(room, {2, {10, 11, 12, 13}, {}, 5}));
  EXPECT_EQ(rooms_.poll(room), waiting_for_input);
  const auto joins = rooms_.take_actions();
  ASSERT_THAT(joins, SizeIs(3));
  EXPECT_EQ(joins[0], receiver_rooms::action(
                          receiver_rooms::outgoing{alice, join{room, {100}, 2, 4, false}}));
  EXPECT_EQ(joins[2],
            receiver_rooms::action(receiver_rooms::outgoing{carol, join{room, {100}, 2, 4, true}}));
  offer_all();
  EXPECT_EQ(rooms_.poll(room), transferring);
  const auto first = rooms_.next_read();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->from, alice);
  EXPECT_EQ(first->under, lease_of(alice));
  EXPECT_EQ(first->bytes, 4 * page_bytes);
  finish(*first);
  const auto second = rooms_.next_read();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->bytes, 4 * page_bytes) << "the aux row is left for a read of its own";
  finish(*second);
  EXPECT_EQ(rooms_.poll(room), transferring);
  const auto aux = rooms_.next_read();
  ASSERT_TRUE(aux);
  EXPECT_EQ(aux->bytes, 64u);
  finish(*aux);
  EXPECT_EQ(rooms_.poll(room), success);
  const auto said = rooms_.take_actions();
  ASSERT_THAT(said, SizeIs(3)) << "a dummy is told as well, which may hold the join";
  EXPECT_EQ(said[1], receiver_rooms::action(
                         receiver_rooms::outgoing{bob, done{room, {100}, 4 * page_bytes + 64, 5}}));
  rooms_.clear(room);
  EXPECT_EQ(rooms_.turns(), 0u);
}

TEST_F(receiver, without_the_guard_all_pieces_a_room_succeeds_too_early) {
  for (bool on : {true, false}) {
    receiver_rooms fresh(small(), {100});
    std::swap(rooms_, fresh);
    set_guard(guard::all_pieces, on);
    begin();
    offer_all();
    const auto read = rooms_.next_read();
    const auto state = rooms_.poll(room);
    set_guard(guard::all_pieces, true);
    EXPECT_EQ(read.has_value(), on);
    EXPECT_EQ(state, on ? transferring : success);
  }
}

TEST_F(receiver, without_the_guard_quiet_a_room_fails_while_reads_are_under_way) {
  for (bool on : {true, false}) {
    receiver_rooms fresh(small(), {100});
    std::swap(rooms_, fresh);
    set_guard(guard::quiet, on);
    begin();
    offer_all();
    const auto read = rooms_.next_read();
    rooms_.abort(room, "the client has gone");
    const auto state = rooms_.poll(room);
    set_guard(guard::quiet, true);
    EXPECT_FALSE(rooms_.is_quiet(room));
    EXPECT_EQ(state, on ? transferring : failed);
  }
}

TEST_F(receiver, an_abort_cancels_reads_and_is_seen_when_they_have_ended) {
  begin();
  offer_all();
  const auto read = rooms_.next_read();
  ASSERT_TRUE(read);
  rooms_.abort(room, "another rank failed", failure_kind::another_rank);
  const auto actions = rooms_.take_actions();
  ASSERT_THAT(actions, SizeIs(4)) << "three aborts and the cancel";
  EXPECT_EQ(actions[2], receiver_rooms::action(receiver_rooms::outgoing{
                            carol, handoff::abort{room, {100}, "another rank failed", true}}));
  EXPECT_EQ(actions[3], receiver_rooms::action(receiver_rooms::cancel_reads{{100}}));
  EXPECT_EQ(rooms_.poll(room), transferring);
  EXPECT_FALSE(rooms_.failure(room));
  EXPECT_FALSE(rooms_.next_read()) << "nothing new is read";
  finish(*read);
  EXPECT_EQ(rooms_.poll(room), failed);
  EXPECT_EQ(rooms_.failure(room),
            (room_failure{"another rank failed", failure_kind::another_rank}));
  EXPECT_EQ(rooms_.wire_bytes(), 0u);
}

TEST_F(receiver, a_cleared_turn_lives_until_it_is_quiet) {
  begin();
  offer_all();
  const auto read = rooms_.next_read();
  rooms_.clear(room);
  EXPECT_EQ(rooms_.poll(room), failed);
  EXPECT_FALSE(rooms_.is_quiet(room));
  EXPECT_EQ(rooms_.turns(), 1u);
  begin(); // Opens the same room again.
  EXPECT_EQ(rooms_.turns(), 2u);
  finish(*read);
  EXPECT_TRUE(rooms_.is_quiet(room));
  EXPECT_EQ(rooms_.turns(), 1u);
  EXPECT_EQ(rooms_.poll(room), waiting_for_input) << "the new turn has nothing to do with it";
}

TEST_F(receiver, a_late_message_of_an_earlier_turn_changes_nothing) {
  begin();
  rooms_.clear(room);
  begin();
  rooms_.take_actions();
  offer_all(100);
  EXPECT_EQ(rooms_.poll(room), waiting_for_input);
  EXPECT_THAT(rooms_.take_actions(), SizeIs(2)) << "its senders are told that it has ended";
  rooms_.aborted(alice, {room, {100}, "late"});
  rooms_.aborted(peer_id{9}, {room, {101}, "a stranger"});
  EXPECT_EQ(rooms_.poll(room), waiting_for_input);
  offer_all(101);
  EXPECT_EQ(rooms_.poll(room), transferring);
}

TEST_F(receiver, a_piece_that_was_not_good_fails_the_room) {
  begin();
  offer_all();
  const auto read = rooms_.next_read();
  finish(*read, false);
  EXPECT_EQ(reason(), "prefill's lease had ended: stale");
}

TEST_F(receiver, success_is_final_and_so_is_failure) {
  begin();
  offer_all();
  while (auto read = rooms_.next_read())
    finish(*read);
  EXPECT_EQ(rooms_.poll(room), success);
  rooms_.abort(room, "late");
  rooms_.lost(alice);
  rooms_.aborted(alice, {room, {100}, "late"});
  EXPECT_EQ(rooms_.poll(room), success);
  rooms_.clear(room);
  begin();
  rooms_.abort(room, "first");
  offer_all(101);
  rooms_.abort(room, "second");
  EXPECT_EQ(reason(), "first");
  EXPECT_FALSE(rooms_.allocate(room, {}));
  EXPECT_FALSE(rooms_.connect(room, {}));
}

TEST_F(receiver, a_sender_that_aborts_or_is_lost_fails_the_room) {
  begin();
  rooms_.aborted(bob, {room, {100}, "another rank", true});
  EXPECT_EQ(reason(), "prefill has aborted: another rank");
  EXPECT_TRUE(rooms_.failure(room)->from_another_rank());
  rooms_.clear(room);
  begin();
  rooms_.lost(carol);
  EXPECT_EQ(reason(), "the connection to prefill has ended");
  rooms_.clear(room);
  begin();
  rooms_.abort_all("the weights change");
  EXPECT_EQ(reason(), "the weights change");
}

TEST_F(receiver, offers_that_do_not_follow_one_another_fail_the_room) {
  auto fails_with = [this](std::string_view why, auto offers) {
    const auto id = next_turn_++;
    begin();
    offers(id);
    EXPECT_THAT(reason(), HasSubstr(why));
    rooms_.clear(room);
  };
  fails_with("do not follow", [this](auto id) { offer_pages(alice, 3, {7}, false, id); });
  fails_with("do not follow", [this](auto id) {
    offer_pages(alice, 2, {7}, false, id);
    offer_pages(alice, 2, {7}, false, id);
  });
  fails_with("do not follow", [this](auto id) {
    offer_pages(alice, 2, {6, 7, 8, 9}, true, id);
    offer_pages(alice, 6, {}, true, id);
  });
  fails_with("do not follow", [this](auto id) { offer_pages(carol, 2, {}, false, id); });
  fails_with("2 to 7 are offered", [this](auto id) {
    offer_pages(alice, 2, {1, 2, 3, 4, 5}, false, id);
  });
  fails_with("as the last", [this](auto id) { offer_pages(alice, 2, {1, 2, 3}, true, id); });
  fails_with("different leases", [this](auto id) {
    offer_pages(alice, 2, {7}, false, id);
    rooms_.offered(alice, {room, {id}, lease_of(bob), {3, {8}, false, {}, 0}}, start);
  });
  fails_with("too many offers", [this](auto id) {
    for (std::uint32_t i = 0; i < 3; ++i)
      offer_pages(alice, 2 + i, {7}, false, id);
  });
}

TEST_F(receiver, calls_out_of_order_are_refused) {
  EXPECT_FALSE(rooms_.connect(room, {}));
  EXPECT_FALSE(rooms_.allocate(room, {}));
  ASSERT_TRUE(rooms_.open(room));
  EXPECT_THAT(rooms_.open(room).error().message, HasSubstr("open already at this decode worker"));
  EXPECT_EQ(rooms_.poll(room), bootstrapping) << "the room that has the number goes on";
  EXPECT_FALSE(rooms_.allocate(room, {})) << "its senders are not known";
  EXPECT_THAT(rooms_.connect(room, {{alice, plan_of(alice)}}).error().message,
              HasSubstr("0 senders of its aux row"));
  EXPECT_THAT(rooms_.connect(room, {{bob, plan_of(bob)}, {alice, plan_of(bob)}}).error().message,
              HasSubstr("2 senders of its aux row"));
  rooms_.clear(room);
  begin();
  EXPECT_FALSE(rooms_.allocate(room, {})) << "it has pages already";
}

TEST_F(receiver, a_worker_that_was_not_asked_cannot_fail_a_room) {
  begin();
  constexpr peer_id stranger{9};
  offer_pages(stranger, 2, {7}, false);
  EXPECT_EQ(rooms_.poll(room), waiting_for_input);
  EXPECT_EQ(rooms_.take_actions(),
            (std::vector<receiver_rooms::action>{receiver_rooms::outgoing{
                stranger, handoff::abort{room, {100}, "decode did not ask this worker"}}}));
  offer_all();
  EXPECT_EQ(rooms_.poll(room), transferring);
}

TEST_F(receiver, an_offer_before_the_pages_are_allocated_fails_the_room) {
  connect();
  offer_pages(alice, 0, {1}, false);
  EXPECT_THAT(reason(), HasSubstr("was not asked"));
  EXPECT_THAT(rooms_.take_actions(), IsEmpty()) << "nobody has been joined";
}

TEST_F(receiver, rooms_are_bounded_with_those_that_wait_for_reads) {
  begin();
  offer_all();
  const auto read = rooms_.next_read();
  rooms_.clear(room);
  ASSERT_TRUE(rooms_.open({1}));
  ASSERT_TRUE(rooms_.open({2}));
  EXPECT_EQ(rooms_.open({3}).error().code, errc::refused);
  finish(*read);
  EXPECT_TRUE(rooms_.open({3}));
}

TEST_F(receiver, the_oldest_room_is_read_first_within_the_limit) {
  begin({1});
  begin(room);
  offer_all(101);
  rooms_.offered(alice, {{1}, {100}, lease_of(alice), {2, {50, 60, 70, 80}, true, {}, 0}}, start);
  const auto first = rooms_.next_read();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->turn, join_id{100});
  EXPECT_THAT(first->pieces, SizeIs(4)) << "scattered pages of one offer are one read";
  EXPECT_EQ(rooms_.wire_bytes(), 4 * page_bytes);
  EXPECT_FALSE(rooms_.next_read()) << "the wire is full";
  finish(*first);
  const auto second = rooms_.next_read();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->turn, join_id{101}) << "the older one has nothing to read now";
}

/// Returns the shortest time that eleven reads of a room take while `idle` other rooms wait.
std::chrono::nanoseconds time_of_reads(std::uint64_t idle) {
  receiver_rooms rooms({.read_pieces_max = 1}, {1});
  const auto plan = plan_of(bob);
  std::vector<std::uint32_t> pages(99);
  std::iota(pages.begin(), pages.end(), 0u);
  for (std::uint64_t i = 1; i <= idle + 1; ++i)
    EXPECT_TRUE(rooms.open({i}) && rooms.connect({i}, {{bob, plan}}) &&
                rooms.allocate({i}, {0, pages, {}, 5}));
  auto best = std::chrono::nanoseconds::max();
  for (std::uint32_t at = 0; at < 9; ++at) {
    rooms.offered(bob,
                  {{idle + 1},
                   {idle + 1},
                   lease_of(bob),
                   {at * 11, {7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27}, false, {}, 3}},
                  start);
    const auto began = std::chrono::steady_clock::now();
    int reads = 0;
    while (const auto read = rooms.next_read()) {
      rooms.finish_read(read->id, read_end::good, "", start);
      EXPECT_TRUE(rooms.is_quiet({idle + 1}));
      ++reads;
    }
    best = std::min<std::chrono::nanoseconds>(best, std::chrono::steady_clock::now() - began);
    EXPECT_EQ(reads, 11);
  }
  return best;
}

TEST(receiver_cost, rooms_that_have_nothing_to_read_cost_a_read_nothing) {
  const auto few = time_of_reads(100);
  const auto many = time_of_reads(20'000);
  std::printf("[ measured ] eleven reads: %lld ns behind 100 idle rooms, %lld ns behind 20,000\n",
              static_cast<long long>(few.count()), static_cast<long long>(many.count()));
  EXPECT_LT(many, 20 * few) << "there are 200 times as many";
}

} // namespace
} // namespace peercache::handoff::receiver_rooms_test
