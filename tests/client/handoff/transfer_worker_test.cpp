#include "tests/client/handoff/transfer_rig.hpp"
#include "tests/client/handoff/worker_rig.hpp"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numeric>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace peercache::client::test {
namespace {

using handoff::call_state;
using handoff::transfer_direction;
using testing::HasSubstr;

constexpr auto write = transfer_direction::write;
constexpr auto read = transfer_direction::read;
constexpr std::size_t mebibyte = 1u << 20;

TEST(transfer_worker, moves_every_byte_to_its_place_in_both_directions) {
  constexpr std::size_t pieces = 10'000, bytes = 100;
  transfer_engine one(pieces * bytes), two(pieces * bytes);
  std::vector<std::size_t> places(pieces);
  std::iota(places.begin(), places.end(), 0);
  std::shuffle(places.begin(), places.end(), std::mt19937(1));
  for (const auto direction : {write, read}) {
    auto& source = direction == write ? one : two;
    auto& destination = direction == write ? two : one;
    source.fill(direction == write ? 1 : 2);
    std::vector<handoff::transfer_piece> moved;
    for (std::size_t i = 0; i < pieces; ++i)
      moved.push_back({source.at(i * bytes), destination.at(places[i] * bytes), bytes});
    const auto outcome = one.call(direction, two, moved);
    ASSERT_EQ(outcome.state, call_state::done) << outcome.reason;
    for (std::size_t i = 0; i < pieces; ++i)
      ASSERT_TRUE(std::equal(source.memory.begin() + static_cast<long>(i * bytes),
                             source.memory.begin() + static_cast<long>((i + 1) * bytes),
                             destination.memory.begin() + static_cast<long>(places[i] * bytes)))
          << "piece " << i;
  }
  EXPECT_EQ(one.worker->stats().leases, 0u);
  EXPECT_EQ(one.worker->stats().done, 2u);
  EXPECT_TRUE(eventually([&] { return two.worker->stats().leases == 0; }));
}

TEST(transfer_worker, moves_one_large_piece) {
  transfer_engine one(80 * mebibyte), two(80 * mebibyte);
  one.fill(3);
  const auto outcome = one.call(write, two, {{one.at(0), two.at(0), one.memory.size()}});
  EXPECT_EQ(outcome.state, call_state::done) << outcome.reason;
  EXPECT_EQ(one.memory, two.memory);
}

TEST(transfer_worker, of_many_threads_keeps_their_calls_apart) {
  constexpr std::size_t threads = 8, rounds = 50, bytes = 64 << 10;
  transfer_engine one(threads * bytes), two(threads * bytes);
  one.fill(4);
  std::vector<std::thread> all;
  for (std::size_t i = 0; i < threads; ++i)
    all.emplace_back([&, i] {
      for (std::size_t round = 0; round < rounds; ++round) {
        auto& from = round % 2 == 0 ? one : two;
        auto& to = round % 2 == 0 ? two : one;
        const auto outcome = from.call(i % 2 == 0 ? write : read, to,
                                       {{one.at(i * bytes), two.at(i * bytes), bytes}});
        const bool local_is_one = &from == &one;
        // If the pieces' local memory belongs to the other engine, the call must be refused before
        // anything is sent.
        const bool possible = (i % 2 == 0) == local_is_one;
        EXPECT_EQ(outcome.state == call_state::done, possible) << outcome.reason;
      }
    });
  for (auto& each : all)
    each.join();
  EXPECT_EQ(one.memory, two.memory);
}

TEST(transfer_worker, writes_into_registered_memory_alone) {
  transfer_engine one(4096), two(4096);
  std::vector<std::byte> secret(4096, std::byte{7});
  const auto address = reinterpret_cast<std::uintptr_t>(secret.data());
  one.fill(5);
  auto outcome = one.call(write, two, {{one.at(0), two.at(0), 10}, {one.at(10), address, 10}});
  EXPECT_EQ(outcome.state, call_state::failed);
  EXPECT_THAT(outcome.reason, HasSubstr("not in one piece of memory that it has registered"));
  EXPECT_TRUE(two.is_filled_with(std::byte{0})) << "not even the pieces that are";
  outcome = one.call(read, two, {{address, one.at(0), 10}});
  EXPECT_EQ(outcome.state, call_state::failed);
  outcome = one.call(write, two, {{address, two.at(0), 10}});
  EXPECT_THAT(outcome.reason, HasSubstr("registered here"));
  EXPECT_EQ(secret, std::vector<std::byte>(4096, std::byte{7}));
}

TEST(transfer_worker, registers_memory_once_until_it_is_unregistered) {
  transfer_engine one(4096), two(4096);
  EXPECT_EQ(one.worker->register_memory(one.all()).error().code, errc::refused);
  EXPECT_EQ(one.worker->register_memory({one.at(4095), 1}).error().code, errc::refused);
  EXPECT_EQ(one.worker->register_memory({one.at(0), 0}).error().code, errc::invalid_argument);
  EXPECT_EQ(one.worker->unregister_memory(one.at(1)).error().code, errc::not_found);
  ASSERT_TRUE(one.worker->unregister_memory(one.at(0)));
  EXPECT_EQ(one.call(write, two, {{one.at(0), two.at(0), 10}}).state, call_state::failed);
  ASSERT_TRUE(one.worker->register_memory(one.all()));
  EXPECT_EQ(one.call(write, two, {{one.at(0), two.at(0), 10}}).state, call_state::done);
}

TEST(transfer_worker, that_nobody_answers_fails_its_calls) {
  transfer_engine one(4096);
  auto two = std::make_unique<transfer_engine>(4096);
  EXPECT_EQ(one.call(write, *two, {}).state, call_state::done) << "without pieces it is a probe";
  const auto address = two->address();
  const auto destination = two->at(0);
  two->worker.reset();
  const auto id =
      one.worker->begin(write, address, {{one.at(0), destination, 10}}, std::chrono::seconds(30));
  ASSERT_TRUE(id);
  EXPECT_THAT(one.worker->wait(*id).reason, HasSubstr(std::to_string(address.port)));
}

/// The caller may use the destination again whenever a call has returned, even if the call timed
/// out in the middle of the data.
TEST(transfer_worker, writes_nothing_after_a_call_has_returned) {
  transfer_engine one(32 * mebibyte), two(32 * mebibyte);
  std::size_t cut_short = 0;
  for (int round = 0; round < 30; ++round) {
    const auto direction = round % 2 == 0 ? write : read;
    auto& source = direction == write ? one : two;
    auto& destination = direction == write ? two : one;
    std::fill(source.memory.begin(), source.memory.end(), std::byte{0x55});
    const auto outcome =
        one.call(direction, two, {{source.at(0), destination.at(0), source.memory.size()}},
                 std::chrono::milliseconds(round));
    std::fill(destination.memory.begin(), destination.memory.end(), std::byte{0xaa});
    cut_short += outcome.state == call_state::done ? 0 : 1;
    // One more call: when it is done, everything that the first call may have left on its way has
    // arrived.
    std::vector<std::byte> small(64);
    ASSERT_EQ(one.call(write, two, {}).state, call_state::done);
    ASSERT_TRUE(destination.is_filled_with(std::byte{0xaa})) << "round " << round;
  }
  EXPECT_GT(cut_short, 0u);
}

TEST(transfer_worker, gives_memory_back_in_the_middle_of_a_call) {
  transfer_engine one(32 * mebibyte), two(32 * mebibyte);
  for (auto* leaving : {&two, &one}) {
    std::fill(one.memory.begin(), one.memory.end(), std::byte{0x55});
    const auto id =
        one.worker->begin(write, two.address(), {{one.at(0), two.at(0), one.memory.size()}},
                          std::chrono::seconds(30));
    ASSERT_TRUE(id);
    ASSERT_TRUE(eventually(
        [&] { return two.worker->stats().requests != 0 || one.worker->stats().calls == 0; }));
    ASSERT_TRUE(leaving->worker->unregister_memory(leaving->at(0)));
    std::fill(leaving->memory.begin(), leaving->memory.end(), std::byte{0xaa});
    one.worker->wait(*id);
    EXPECT_TRUE(leaving->is_filled_with(std::byte{0xaa}));
    ASSERT_TRUE(leaving->worker->register_memory(leaving->all()));
  }
}

/// The peer's connections live, but it never finishes a read.
TEST(transfer_worker, drops_a_peer_that_never_says_that_it_has_stopped_reading) {
  mute_engine mute;
  auto options = tcp_options();
  options.answer_timeout = std::chrono::milliseconds(200);
  transfer_engine one(4096, options);
  const auto begin = [&](std::chrono::nanoseconds timeout) {
    const auto id = one.worker->begin(write, mute.address(), {{one.at(0), 1 << 20, 10}}, timeout);
    EXPECT_TRUE(id);
    return *id;
  };
  EXPECT_EQ(one.worker->wait(begin(std::chrono::milliseconds(300))).state, call_state::timed_out);
  EXPECT_EQ(mute.writes(), 1u);
  begin(std::chrono::hours(1));
  EXPECT_TRUE(eventually([&] { return mute.writes() == 2; })) << "it is dialed anew";
  one.worker.reset();
}

TEST(transfer_worker, that_is_closed_ends_its_calls) {
  transfer_engine one(32 * mebibyte), two(32 * mebibyte);
  const auto id = one.worker->begin(
      write, two.address(), {{one.at(0), two.at(0), one.memory.size()}}, std::chrono::seconds(30));
  ASSERT_TRUE(id);
  one.worker->close();
  one.worker->wait(*id);
  EXPECT_EQ(one.call(write, two, {}).reason, "the transfer engine is closed");
  EXPECT_EQ(one.worker->register_memory({8, 8}).error().code, errc::closed);
}

TEST(transfer_worker, of_a_parent_is_closed_in_its_child) {
  transfer_engine one(4096), two(4096);
  const auto child = ::fork();
  if (child == 0) {
    const bool closed = one.call(write, two, {}).state == call_state::failed &&
                        one.worker->unregister_memory(one.at(0)).error().code == errc::closed;
    one.worker.reset();
    two.worker.reset();
    ::_exit(closed ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(one.call(write, two, {}).state, call_state::done);
}

TEST(transfer_worker, listens_for_other_hosts_only_when_it_is_told_to) {
  auto options = tcp_options();
  options.host = "0.0.0.0";
  EXPECT_EQ(transfer_worker::start(options).error().code, errc::invalid_argument);
  options.host = "192.0.2.1";
  EXPECT_EQ(transfer_worker::start(options).error().code, errc::refused);
  options.host = "localhost";
  EXPECT_TRUE(transfer_worker::start(options));
}

} // namespace
} // namespace peercache::client::test
