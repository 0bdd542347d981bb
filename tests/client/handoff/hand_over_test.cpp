#include "common/interruption.hpp"
#include "tests/client/handoff/refused_epoll.hpp"
#include "tests/client/handoff/worker_rig.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace peercache::client::test {
namespace {

using handoff::room_state;
using testing::HasSubstr;

TEST(hand_over, brings_the_pages_of_all_chunks_and_the_aux_row) {
  worker_pair pair;
  pair.meet(7, {10, 11, 12, 40});
  for (std::uint8_t i = 0; i < 4; ++i)
    pair.prefill_memory.fill(20 + i, i + 1);
  pair.prefill_memory.fill_aux(5, 0x55);
  const auto id = pair.sending->id;
  ASSERT_TRUE(pair.prefill->init(id, 4));
  EXPECT_EQ(pair.sending->state.poll(), room_state::waiting_for_input);
  ASSERT_TRUE(pair.prefill->send(id, std::vector<std::uint32_t>{20, 21}, false));
  EXPECT_EQ(pair.sending->state.poll(), room_state::transferring);
  ASSERT_TRUE(pair.prefill->send(id, std::vector<std::uint32_t>{22, 23}, true, {}, 5));
  ASSERT_TRUE(eventually([&] { return pair.receiving->poll() == room_state::success; }));
  EXPECT_TRUE(pair.decode_memory.has(10, 1));
  EXPECT_TRUE(pair.decode_memory.has(11, 2));
  EXPECT_TRUE(pair.decode_memory.has(12, 3));
  EXPECT_TRUE(pair.decode_memory.has(40, 4));
  EXPECT_TRUE(pair.decode_memory.has_aux(3, 0x55));
  ASSERT_TRUE(eventually([&] { return pair.sending->state.poll() == room_state::success; }));
  EXPECT_EQ(pair.prefill->metric(id).bytes, 4u * 2 * 4096 + worker_memory::aux_bytes);
  pair.part();
  EXPECT_EQ(pair.prefill->stats().succeeded, 1u);
  EXPECT_EQ(pair.decode->stats().succeeded, 1u);
  EXPECT_EQ(pair.decode->stats().bytes, 4u * 2 * 4096 + worker_memory::aux_bytes);
}

TEST(hand_over, begins_behind_the_prefix_that_decode_has) {
  worker_pair pair;
  pair.meet(8, {30}, 9);
  pair.prefill_memory.fill(1, 0x11);
  ASSERT_TRUE(pair.prefill->init(pair.sending->id, 1));
  ASSERT_TRUE(pair.prefill->send(pair.sending->id, std::vector<std::uint32_t>{1}, true));
  ASSERT_TRUE(eventually([&] { return pair.receiving->poll() == room_state::success; }));
  EXPECT_TRUE(pair.decode_memory.has(30, 0x11));
}

TEST(hand_over, of_rooms_that_come_one_after_the_other_uses_one_connection) {
  worker_pair pair;
  for (std::uint64_t room = 1; room <= 20; ++room) {
    pair.meet(room, {2});
    pair.prefill_memory.fill(4, static_cast<std::uint8_t>(room));
    ASSERT_TRUE(pair.prefill->init(pair.sending->id, 1));
    ASSERT_TRUE(pair.prefill->send(pair.sending->id, std::vector<std::uint32_t>{4}, true));
    ASSERT_TRUE(eventually([&] { return pair.receiving->poll() == room_state::success; }));
    EXPECT_TRUE(pair.decode_memory.has(2, static_cast<std::uint8_t>(room)));
    ASSERT_TRUE(eventually([&] { return pair.sending->state.poll() == room_state::success; }));
    pair.part();
  }
  EXPECT_EQ(pair.prefill->stats().peers, 1u);
  EXPECT_EQ(pair.decode->stats().peers, 1u);
  EXPECT_EQ(pair.prefill->stats().rooms, 0u);
}

TEST(hand_over, that_either_side_aborts_fails_at_the_other_with_the_reason) {
  worker_pair pair;
  pair.meet(1, {2});
  pair.prefill->abort(pair.sending->id, "the request was cancelled");
  EXPECT_EQ(pair.sending->state.poll(), room_state::failed);
  ASSERT_TRUE(eventually([&] { return pair.receiving->poll() == room_state::failed; }));
  EXPECT_THAT(pair.decode->end(pair.number, "late")->reason,
              HasSubstr("the request was cancelled"));
  pair.part();

  pair.meet(2, {2});
  pair.decode->abort(pair.number, "no memory");
  ASSERT_TRUE(eventually([&] { return pair.sending->state.poll() == room_state::failed; }));
  EXPECT_THAT(pair.prefill->failure(pair.sending->id)->reason, HasSubstr("no memory"));
  EXPECT_EQ(pair.receiving->poll(), room_state::failed);
  pair.part();

  pair.meet(3, {2});
  pair.decode->clear(pair.number);
  ASSERT_TRUE(eventually([&] { return pair.sending->state.poll() == room_state::failed; }));
}

TEST(hand_over, fails_when_the_other_worker_ends_and_says_which_one_it_was) {
  worker_pair pair;
  pair.meet(1, {2});
  const auto address = pair.address();
  pair.prefill.reset();
  ASSERT_TRUE(eventually([&] { return pair.receiving->poll() == room_state::failed; }));
  EXPECT_EQ(pair.sending->state.poll(), room_state::failed);
  const auto lost = pair.decode->take_lost();
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].address, address);
  EXPECT_TRUE(pair.decode->take_lost().empty());

  auto next = prefill_worker::start(tcp_options(), pair.prefill_memory.layout());
  ASSERT_TRUE(next);
  pair.prefill = std::move(*next);
  pair.decode->clear(pair.number);
  pair.meet(1, {2});
  pair.decode.reset();
  ASSERT_TRUE(eventually([&] { return pair.sending->state.poll() == room_state::failed; }));
  // A worker that ends in order announces that it gives its memory back; its peer may hear of that
  // before the connection ends.
  EXPECT_THAT(pair.prefill->failure(pair.sending->id)->reason,
              testing::AnyOf(HasSubstr("ended"), HasSubstr("gives its memory back")));
}

TEST(hand_over, from_where_nobody_listens_fails) {
  worker_pair pair;
  auto gone = prefill_worker::start(tcp_options(), pair.prefill_memory.layout());
  ASSERT_TRUE(gone);
  const handoff::worker_address nowhere{"127.0.0.1", (*gone)->port()};
  gone->reset();
  auto room = pair.decode->open({5});
  ASSERT_TRUE(room);
  ASSERT_TRUE(pair.decode->connect({5}, {nowhere}));
  ASSERT_TRUE(eventually([&] { return room->poll() == room_state::failed; }));
  EXPECT_THAT(pair.decode->end({5}, "late")->reason, HasSubstr(std::to_string(nowhere.port)));
  ASSERT_EQ(pair.decode->take_lost().size(), 1u);
}

TEST(hand_over, between_engines_that_do_not_fit_fails_with_the_difference) {
  worker_pair pair;
  worker_memory other(4096, "float8_e4m3fn");
  auto odd = decode_worker::start(tcp_options(), other.layout());
  ASSERT_TRUE(odd);
  for (std::uint64_t number : {1u, 2u}) {
    auto room = (*odd)->open({number});
    ASSERT_TRUE(room);
    ASSERT_TRUE((*odd)->connect({number}, {pair.address()}));
    ASSERT_TRUE(eventually([&] { return room->poll() == room_state::failed; }));
    const auto why = (*odd)->end({number}, "late");
    EXPECT_THAT(why->reason, HasSubstr("bfloat16"));
    EXPECT_THAT(why->reason, HasSubstr("float8_e4m3fn"));
  }
}

TEST(hand_over, is_connected_once) {
  worker_pair pair;
  EXPECT_EQ(pair.decode->connect({9}, {pair.address()}).error().code, errc::invalid_argument);
  pair.meet(9, {2});
  EXPECT_EQ(pair.decode->connect({9}, {pair.address()}).error().code, errc::invalid_argument);
}

TEST(hand_over, of_memory_that_is_given_back_fails_until_it_is_lent_again) {
  worker_pair pair;
  pair.meet(1, {2});
  pair.prefill->give_memory_back();
  EXPECT_EQ(pair.sending->state.poll(), room_state::failed);
  EXPECT_EQ(pair.prefill->open({2}, 1).error().code, errc::refused);
  pair.decode->give_memory_back();
  EXPECT_EQ(pair.receiving->poll(), room_state::failed);
  EXPECT_EQ(pair.decode->open({2}).error().code, errc::refused);
  pair.part();
  ASSERT_TRUE(pair.prefill->lend_memory());
  ASSERT_TRUE(pair.decode->lend_memory());
  pair.meet(1, {2});
  pair.prefill_memory.fill(4, 0x44);
  ASSERT_TRUE(pair.prefill->init(pair.sending->id, 1));
  ASSERT_TRUE(pair.prefill->send(pair.sending->id, std::vector<std::uint32_t>{4}, true));
  ASSERT_TRUE(eventually([&] { return pair.receiving->poll() == room_state::success; }));
  EXPECT_TRUE(pair.decode_memory.has(2, 0x44));
}

TEST(hand_over, of_a_parent_s_workers_is_closed_in_its_child) {
  worker_pair pair;
  pair.meet(1, {2});
  const auto child = ::fork();
  if (child == 0) {
    const bool closed = pair.prefill->open({2}, 1).error().code == errc::closed &&
                        pair.decode->open({2}).error().code == errc::closed &&
                        pair.decode->end({1}, "late") && pair.prefill->failure(pair.sending->id);
    pair.prefill.reset();
    pair.decode.reset();
    ::_exit(closed ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(pair.receiving->poll(), room_state::waiting_for_input);
}

TEST(worker, listens_for_other_hosts_only_when_it_is_told_to) {
  worker_memory memory;
  auto options = tcp_options();
  options.host = "0.0.0.0";
  EXPECT_EQ(prefill_worker::start(options, memory.layout()).error().code, errc::refused);
  // Not an address of this machine, so the worker must refuse it before it opens a port.
  options.host = "192.0.2.1";
  EXPECT_EQ(prefill_worker::start(options, memory.layout()).error().code, errc::refused);
  options.host = "0.0.0.0";
  options.insecure_cluster = true;
  EXPECT_TRUE(prefill_worker::start(options, memory.layout()));
}

TEST(worker, whose_start_is_interrupted_does_not_start) {
  const worker_memory memory;
  {
    const interruption stop([] { return true; });
    ASSERT_TRUE(eventually([] { return interruption::look(); }));
    const auto prefill = prefill_worker::start(tcp_options(), memory.layout());
    ASSERT_FALSE(prefill);
    EXPECT_EQ(prefill.error().code, errc::closed);
    const auto decode = decode_worker::start(tcp_options(), memory.layout());
    ASSERT_FALSE(decode);
    EXPECT_EQ(decode.error().code, errc::closed);
  }
  const interruption none([] { return false; });
  EXPECT_TRUE(prefill_worker::start(tcp_options(), memory.layout()));
  EXPECT_TRUE(decode_worker::start(tcp_options(), memory.layout()));
}

TEST(worker, of_an_impossible_layout_does_not_start) {
  worker_memory memory;
  auto layout = memory.layout();
  layout.page_tokens = 0;
  EXPECT_EQ(prefill_worker::start(tcp_options(), layout).error().code, errc::invalid_argument);
  EXPECT_EQ(decode_worker::start(tcp_options(), layout).error().code, errc::invalid_argument);
}

/// The kernel limits how many descriptors a user may watch by epoll (fs.epoll.max_user_watches).
TEST(decode_worker, that_the_kernel_lets_watch_nothing_more_does_not_start) {
  const worker_memory memory;
  std::size_t refused = 0;
  for (;; ++refused) {
    const refused_epoll one{refused};
    const auto started = decode_worker::start(tcp_options(), memory.layout());
    if (started)
      break;
    EXPECT_EQ(started.error().code, errc::io_failed) << refused;
    ASSERT_LT(refused, 100u);
  }
  EXPECT_GE(refused, 2u) << "its listener, and what it reads over";
}

} // namespace
} // namespace peercache::client::test
