#include "handoff/transfer_calls.hpp"

#include "common/slot_entry.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace peercache::handoff::transfer_calls_test {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr peer_id peer{7};
const worker_address address{"10.0.0.2", 99};

class transfer_calls_test : public testing::Test {
protected:
  transfer_calls_test() { EXPECT_TRUE(memory.add({1000, 1000})); }

  call_id begin(transfer_direction direction, std::size_t pieces = 1) {
    transfer_call call{direction, address, {}, now + seconds(30)};
    for (std::size_t i = 0; i < pieces; ++i)
      call.pieces.push_back({1000 + i % 100, 1500 + i % 100, 10});
    auto id = calls.begin(std::move(call));
    EXPECT_TRUE(id) << id.error().message;
    return *id;
  }
  void connect() {
    EXPECT_EQ(calls.take_dials(), std::vector{address});
    calls.dialed(address, peer);
    calls.joined(peer);
  }
  template <class Message>
  std::vector<Message> told() {
    calls.turn(now);
    std::vector<Message> all;
    for (const auto& each : calls.take_messages()) {
      EXPECT_EQ(each.to, peer);
      if (const auto* wanted = std::get_if<Message>(&each.what))
        all.push_back(*wanted);
    }
    return all;
  }
  call_id asked(transfer_direction direction) {
    const auto id = begin(direction);
    connect();
    return id;
  }

  transfer_calls::time_point now = transfer_calls::time_point{} + seconds(100);
  std::vector<slot_entry> entries = std::vector<slot_entry>(16);
  registered_memory memory;
  lease_table leases{entries, {1, 2}};
  transfer_reads reads{{}};
  transfer_calls calls{memory, leases, reads, {}};
};

TEST_F(transfer_calls_test, a_write_lends_its_pieces_until_it_is_answered) {
  const auto id = asked(transfer_direction::write);
  const auto writes = told<transfer_write>();
  ASSERT_EQ(writes.size(), 1u);
  EXPECT_TRUE(leases.stands(writes[0].under));
  EXPECT_EQ(writes[0].timeout_ms, 30'000u);
  EXPECT_EQ(calls.state(id), call_state::open);
  EXPECT_TRUE(calls.ended(peer, {writes[0].id, true, ""}));
  EXPECT_EQ(calls.state(id), call_state::done);
  EXPECT_FALSE(leases.stands(writes[0].under));
  EXPECT_TRUE(calls.take_has_ended());
  EXPECT_EQ(calls.open(), 0u);
}

TEST_F(transfer_calls_test, a_write_that_is_refused_fails_with_the_peer_s_reason) {
  const auto id = asked(transfer_direction::write);
  const auto writes = told<transfer_write>();
  EXPECT_TRUE(calls.ended(peer, {writes.at(0).id, false, "that is not mine"}));
  EXPECT_EQ(calls.state(id), call_state::failed);
  EXPECT_THAT(calls.failure(id), HasSubstr("that is not mine"));
  EXPECT_EQ(leases.taken(), 0u);
}

TEST_F(transfer_calls_test, a_write_that_takes_too_long_is_revoked_and_awaits_the_peer_s_answer) {
  const auto id = asked(transfer_direction::write);
  const auto writes = told<transfer_write>();
  EXPECT_EQ(calls.deadline(), now + seconds(30));
  now += seconds(30);
  EXPECT_EQ(told<transfer_stop>(), (std::vector{transfer_stop{writes.at(0).id}}));
  EXPECT_EQ(leases.taken(), 0u);
  EXPECT_EQ(calls.state(id), call_state::open) << "the peer may still write to its memory";
  EXPECT_TRUE(calls.ended(peer, {writes[0].id, true, ""}));
  EXPECT_EQ(calls.state(id), call_state::timed_out) << "whatever the answer is";
}

TEST_F(transfer_calls_test, a_peer_that_does_not_answer_a_stop_is_to_be_dropped) {
  const auto id = asked(transfer_direction::write);
  told<transfer_write>();
  calls.cancel(id, "given up");
  now += seconds(60); // As if this process had been frozen: no time counts before the stop is sent.
  EXPECT_EQ(told<transfer_stop>().size(), 1u);
  EXPECT_THAT(calls.take_silent(), IsEmpty());
  now += seconds(5);
  calls.turn(now);
  EXPECT_EQ(calls.take_silent(), std::vector{peer});
  EXPECT_THAT(calls.take_silent(), IsEmpty()) << "once";
  EXPECT_EQ(calls.state(id), call_state::open) << "it is still connected";
  calls.lost(peer, "it did not answer");
  EXPECT_EQ(calls.state(id), call_state::failed);
  EXPECT_EQ(calls.failure(id), "given up");
}

TEST_F(transfer_calls_test, a_peer_that_has_answered_a_stop_or_is_lost_is_not_to_be_dropped) {
  const auto answered = begin(transfer_direction::write), read = begin(transfer_direction::read);
  connect();
  const auto writes = told<transfer_write>();
  calls.cancel_all("given up");
  EXPECT_EQ(told<transfer_stop>().size(), 2u);
  EXPECT_EQ(calls.state(read), call_state::failed) << "nothing of a peer is awaited";
  EXPECT_TRUE(calls.ended(peer, {writes.at(0).id, false, "stopped"}));
  EXPECT_EQ(calls.state(answered), call_state::failed);
  const auto lost = begin(transfer_direction::write);
  EXPECT_EQ(told<transfer_write>().size(), 1u);
  calls.cancel(lost, "given up");
  calls.turn(now);
  now += seconds(5);
  calls.turn(now);
  calls.lost(peer, "its process has died");
  EXPECT_THAT(calls.take_silent(), IsEmpty());
}

TEST_F(transfer_calls_test, a_read_has_a_lease_of_the_peer_s_and_tells_its_end) {
  const auto id = asked(transfer_direction::read);
  const auto wanted = told<transfer_read>();
  ASSERT_EQ(wanted.size(), 1u);
  EXPECT_EQ(wanted[0].ranges, (std::vector{memory_range{1000, 10}}));
  EXPECT_EQ(leases.taken(), 0u);
  const lease under{{3}, {8}, {}};
  EXPECT_TRUE(calls.lent(peer, {wanted[0].id, under}));
  const auto order = reads.next_read();
  ASSERT_TRUE(order);
  EXPECT_EQ(order->under, under);
  EXPECT_EQ(order->from, peer);
  reads.finish_read(order->id, true, "");
  EXPECT_TRUE(calls.read_finished(reads.take_finished().at(0)));
  EXPECT_EQ(calls.state(id), call_state::done);
  EXPECT_EQ(told<transfer_stop>(), (std::vector{transfer_stop{wanted[0].id}}));
}

TEST_F(transfer_calls_test, a_read_that_is_cancelled_is_open_until_nothing_is_read) {
  const auto id = asked(transfer_direction::read);
  const auto wanted = told<transfer_read>();
  EXPECT_TRUE(calls.lent(peer, {wanted.at(0).id, {{3}, {8}, {}}}));
  const auto order = reads.next_read();
  calls.cancel(id, "given up");
  EXPECT_EQ(reads.take_cancels(), std::vector{order->turn});
  EXPECT_EQ(calls.state(id), call_state::open);
  reads.finish_read(order->id, true, "");
  EXPECT_TRUE(calls.read_finished(reads.take_finished().at(0)));
  EXPECT_EQ(calls.state(id), call_state::failed);
  EXPECT_EQ(calls.failure(id), "given up");
}

TEST_F(transfer_calls_test, a_lease_that_comes_late_is_not_used) {
  const auto id = asked(transfer_direction::read);
  const auto wanted = told<transfer_read>();
  calls.cancel(id, "given up");
  EXPECT_EQ(calls.state(id), call_state::failed);
  EXPECT_EQ(told<transfer_stop>().size(), 1u);
  EXPECT_TRUE(calls.lent(peer, {wanted.at(0).id, {{3}, {8}, {}}}));
  EXPECT_EQ(reads.jobs(), 0u);
}

TEST_F(transfer_calls_test, many_pieces_are_several_transfers_that_succeed_together) {
  const auto id = begin(transfer_direction::write, 10'000);
  connect();
  const auto writes = told<transfer_write>();
  ASSERT_EQ(writes.size(), 2u);
  EXPECT_EQ(writes[0].pieces.size() + writes[1].pieces.size(), 10'000u);
  EXPECT_TRUE(calls.ended(peer, {writes[0].id, true, ""}));
  EXPECT_EQ(calls.state(id), call_state::open);
  EXPECT_TRUE(calls.ended(peer, {writes[1].id, true, ""}));
  EXPECT_EQ(calls.state(id), call_state::done);
}

TEST_F(transfer_calls_test, one_transfer_that_fails_stops_the_others_of_its_call) {
  const auto id = begin(transfer_direction::write, 10'000);
  connect();
  const auto writes = told<transfer_write>();
  EXPECT_TRUE(calls.ended(peer, {writes.at(0).id, false, "no"}));
  EXPECT_EQ(told<transfer_stop>(), (std::vector{transfer_stop{writes.at(1).id}}));
  EXPECT_EQ(calls.state(id), call_state::open);
  EXPECT_TRUE(calls.ended(peer, {writes[1].id, false, "stopped"}));
  EXPECT_EQ(calls.state(id), call_state::failed);
  EXPECT_THAT(calls.failure(id), HasSubstr("no"));
}

TEST_F(transfer_calls_test, a_peer_that_is_lost_fails_its_calls_and_is_dialed_anew) {
  const auto first = asked(transfer_direction::write);
  EXPECT_EQ(told<transfer_write>().size(), 1u);
  calls.lost(peer, "its process has died");
  EXPECT_EQ(calls.state(first), call_state::failed);
  EXPECT_EQ(calls.failure(first), "its process has died");
  EXPECT_EQ(leases.taken(), 0u);
  EXPECT_THAT(told<transfer_stop>(), IsEmpty());
  const auto second = begin(transfer_direction::write);
  connect();
  EXPECT_EQ(told<transfer_write>().size(), 1u);
  EXPECT_EQ(calls.state(second), call_state::open);
}

TEST_F(transfer_calls_test, nobody_there_fails_the_call) {
  const auto id = begin(transfer_direction::read);
  EXPECT_EQ(calls.take_dials(), std::vector{address});
  calls.unreachable(address, "nobody listens there");
  EXPECT_EQ(calls.state(id), call_state::failed);
}

TEST_F(transfer_calls_test, a_call_that_waits_for_its_connection_takes_too_long) {
  const auto id = begin(transfer_direction::write);
  now += seconds(30);
  calls.turn(now);
  EXPECT_EQ(calls.state(id), call_state::timed_out);
  EXPECT_THAT(calls.take_dials(), IsEmpty());
}

TEST_F(transfer_calls_test, only_so_many_transfers_are_open_with_one_peer) {
  std::vector<call_id> all;
  for (int i = 0; i < 20; ++i)
    all.push_back(begin(transfer_direction::write));
  connect();
  auto writes = told<transfer_write>();
  EXPECT_EQ(writes.size(), 8u);
  EXPECT_TRUE(calls.ended(peer, {writes[0].id, true, ""}));
  EXPECT_EQ(told<transfer_write>().size(), 1u);
}

TEST_F(transfer_calls_test, without_a_lease_a_write_waits) {
  std::vector<lease> others;
  while (auto other = leases.take(1))
    others.push_back(*other);
  asked(transfer_direction::write);
  EXPECT_THAT(told<transfer_write>(), IsEmpty());
  leases.revoke(others[0]);
  EXPECT_EQ(told<transfer_write>().size(), 1u);
}

TEST_F(transfer_calls_test, own_memory_must_be_registered_and_stay_so) {
  transfer_call call{transfer_direction::write, address, {{1990, 5, 11}}, now + seconds(1)};
  EXPECT_EQ(calls.begin(call).error().code, errc::invalid_argument);
  call.direction = transfer_direction::read;
  call.pieces = {{5, 1990, 11}};
  EXPECT_EQ(calls.begin(call).error().code, errc::invalid_argument);
  const auto write = begin(transfer_direction::write), read = begin(transfer_direction::read);
  calls.memory_leaves({1000, 1});
  EXPECT_EQ(calls.state(write), call_state::failed);
  EXPECT_EQ(calls.state(read), call_state::open) << "it is the peer's memory";
  calls.memory_leaves({1509, 1});
  EXPECT_EQ(calls.state(read), call_state::failed);
}

TEST_F(transfer_calls_test, what_no_worker_says_is_told) {
  asked(transfer_direction::write);
  const auto id = told<transfer_write>().at(0).id;
  EXPECT_FALSE(calls.lent(peer, {id, {{3}, {8}, {}}})) << "nobody asked for a lease";
  EXPECT_FALSE(calls.ended({8}, {id, true, ""})) << "another peer";
  begin(transfer_direction::read);
  const auto read = told<transfer_read>().at(0).id;
  EXPECT_FALSE(calls.ended(peer, {read, true, ""})) << "only this worker knows";
  EXPECT_TRUE(calls.ended(peer, {{999}, true, ""})) << "an answer to what has ended";
}

TEST_F(transfer_calls_test, results_are_kept_until_they_are_forgotten) {
  transfer_calls few{memory, leases, reads, {2, 8}};
  const transfer_call call{transfer_direction::write, address, {}, now};
  const auto one = few.begin(call), two = few.begin(call);
  few.turn(now);
  EXPECT_EQ(few.begin(call).error().code, errc::refused);
  EXPECT_EQ(few.state(*one), call_state::timed_out);
  few.forget(*one);
  EXPECT_EQ(few.state(*one), call_state::failed);
  EXPECT_TRUE(few.begin(call));
  EXPECT_EQ(few.state(*two), call_state::timed_out);
}

} // namespace
} // namespace peercache::handoff::transfer_calls_test
