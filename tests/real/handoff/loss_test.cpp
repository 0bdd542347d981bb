#include "tests/real/handoff/loss_rig.hpp"

#include <cstdio>
#include <gtest/gtest.h>

/// What becomes of rooms when the process of one side dies, is frozen, or begins anew.
namespace peercache::client::test {
namespace {

using handoff::room_state;
using std::chrono::milliseconds;

enum class fault { kill, freeze };

void suffer(victim& who, fault what) {
  if (what == fault::kill)
    who.kill();
  else
    who.freeze();
}

void expect_in_time(fault what, milliseconds took) {
  const auto limit = what == fault::kill ? death_is_seen_within : silence_is_seen_within;
  EXPECT_LE(took.count(), (limit + margin).count());
  std::printf("[ measured ] %s: seen after %lld ms\n", what == fault::kill ? "kill -9" : "SIGSTOP",
              static_cast<long long>(took.count()));
}

class loss : public testing::TestWithParam<std::tuple<fault, room_state>> {
protected:
  fault what() const { return std::get<0>(GetParam()); }
  room_state state() const { return std::get<1>(GetParam()); }
};

TEST_P(loss, of_prefill_fails_the_room_at_decode_and_one_that_wakes_has_failed) {
  auto& shared = map_shared();
  shared.chunks = state() == room_state::waiting_for_input ? 0 : 1;
  victim prefill(side::prefill, shared);
  ASSERT_TRUE(eventually([&] { return shared.prefill_port != 0; }));
  decode_side decode;
  if (state() == room_state::bootstrapping)
    suffer(prefill, what()); // Before decode connects: nobody answers or listens.
  decode.connect({"127.0.0.1", shared.prefill_port});
  if (state() != room_state::bootstrapping) {
    ASSERT_TRUE(eventually([&] { return decode.poll() == state(); }));
    suffer(prefill, what());
  }
  expect_in_time(what(), time_until([&] { return decode.poll() == room_state::failed; }));
  prefill_side next;
  expect_works(next, decode);
  // A prefill that was frozen before decode came knows of no decode that it could have lost.
  if (what() == fault::freeze && state() != room_state::bootstrapping) {
    prefill.wake();
    EXPECT_TRUE(eventually([&] { return shared.victims == room_state::failed; }));
  }
}

TEST_P(loss, of_decode_fails_the_room_at_prefill_and_one_that_wakes_has_failed) {
  auto& shared = map_shared();
  victim decode(side::decode, shared);
  // In the state `bootstrapping` prefill's room waits for a second decode that never comes; else it
  // waits for pages.
  prefill_side prefill(tcp_options(), state() == room_state::bootstrapping ? 2 : 1);
  shared.prefill_port = prefill.port();
  ASSERT_TRUE(eventually([&] { return shared.victims == room_state::waiting_for_input; }));
  ASSERT_TRUE(eventually([&] { return prefill.has_all_joined(); }));
  if (state() == room_state::transferring) {
    ASSERT_TRUE(prefill.send(1));
    ASSERT_TRUE(eventually([&] { return shared.victims == room_state::transferring; }));
  }
  suffer(decode, what());
  expect_in_time(what(), time_until([&] { return prefill.poll() == room_state::failed; }));
  decode_side next;
  prefill.open_again();
  expect_works(prefill, next);
  if (what() == fault::freeze) {
    decode.wake();
    EXPECT_TRUE(eventually([&] { return shared.victims == room_state::failed; }));
  }
}

std::string name_of(const testing::TestParamInfo<loss::ParamType>& info) {
  const auto& [what, state] = info.param;
  const char* states[] = {"", "bootstrapping", "waiting_for_input", "transferring"};
  return std::string(what == fault::kill ? "kill_in_" : "freeze_in_") +
         states[static_cast<std::size_t>(state)];
}

INSTANTIATE_TEST_SUITE_P(handoff, loss,
                         testing::Combine(testing::Values(fault::kill, fault::freeze),
                                          testing::Values(room_state::bootstrapping,
                                                          room_state::waiting_for_input,
                                                          room_state::transferring)),
                         name_of);

class restart : public testing::TestWithParam<room_state> {};

/// Kills a prefill in this state of its room, and starts another one at the same address: decode's
/// next room there must work at once, and so must the one behind it.
TEST_P(restart, of_prefill_at_its_address_serves_new_rooms) {
  auto& shared = map_shared();
  shared.chunks = GetParam() == room_state::waiting_for_input ? 0 : 1;
  std::optional<victim> prefill(std::in_place, side::prefill, shared);
  ASSERT_TRUE(eventually([&] { return shared.prefill_port != 0; }));
  auto options = tcp_options();
  options.port = shared.prefill_port;
  decode_side decode;
  decode.connect({"127.0.0.1", options.port});
  ASSERT_TRUE(eventually([&] { return decode.poll() == GetParam(); }));
  prefill.reset();
  shared.prefill_port = 0;
  shared.chunks = 2;
  prefill.emplace(side::prefill, shared, options);
  ASSERT_TRUE(eventually([&] { return shared.prefill_port == options.port; }));
  ASSERT_TRUE(eventually([&] { return decode.poll() == room_state::failed; }));
  for (std::uint32_t round = 1; round <= 2; ++round) {
    decode.connect({"127.0.0.1", options.port});
    ASSERT_TRUE(eventually([&] { return decode.poll() == room_state::success; }));
    EXPECT_TRUE(decode.has_pages());
    shared.round = round;
    ASSERT_TRUE(eventually([&] { return shared.begun == round; }));
  }
}

/// Kills a decode in this state of its room, and starts another one of the same name, which uses
/// the same rooms.
TEST_P(restart, of_decode_under_its_name_gets_new_rooms) {
  auto& shared = map_shared();
  prefill_side prefill;
  shared.prefill_port = prefill.port();
  std::optional<victim> decode(std::in_place, side::decode, shared);
  ASSERT_TRUE(eventually([&] { return prefill.has_all_joined(); }));
  if (GetParam() == room_state::transferring) {
    ASSERT_TRUE(prefill.send(1));
    ASSERT_TRUE(eventually([&] { return shared.victims == room_state::transferring; }));
  }
  decode.reset();
  ASSERT_TRUE(eventually([&] { return prefill.poll() == room_state::failed; }));
  prefill.open_again();
  shared.victims = room_state::bootstrapping;
  decode.emplace(side::decode, shared);
  for (std::uint32_t round = 1; round <= 2; ++round) {
    ASSERT_TRUE(eventually([&] { return prefill.send(2); }));
    ASSERT_TRUE(eventually([&] { return prefill.poll() == room_state::success; }));
    ASSERT_TRUE(eventually([&] { return shared.right.load(); }));
    prefill.open_again();
    shared.round = round;
    ASSERT_TRUE(eventually([&] { return shared.begun == round; }));
  }
}

INSTANTIATE_TEST_SUITE_P(handoff, restart,
                         testing::Values(room_state::waiting_for_input, room_state::transferring),
                         [](const auto& info) {
                           return info.param == room_state::transferring ? "in_transferring"
                                                                         : "in_waiting_for_input";
                         });

} // namespace
} // namespace peercache::client::test
