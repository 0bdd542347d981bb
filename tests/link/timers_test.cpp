// Tests of the clock and the scheduler of PeerCache's actor systems.

#include "common/beat_time.hpp"
#include "link/protocol/internal.hpp"
#include "link/system_config.hpp"
#include "link/timers.hpp"
#include "tests/support/thread_sleeps.hpp"

#include <caf/all.hpp>
#include <chrono>
#include <cstdint>
#include <future>
#include <gtest/gtest.h>
#include <string>
#include <string_view>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace peercache::link {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;
using tests::sleeps_of;

constexpr std::string_view workers = "peercache-actor";

caf::behavior echo(caf::event_based_actor*, int more) {
  return {[more](int number) { return number + more; }};
}

class clocked : public testing::Test {
protected:
  system_config config_{2};
  caf::actor_system system_{config_};
};

TEST_F(clocked, requests_that_are_answered_in_time_wake_nobody_for_their_timers) {
  auto other = system_.spawn(echo, 1);
  caf::scoped_actor self{system_};
  const auto ask = [&](int number) {
    self->request(other, 60s, number)
        .receive([&](int answer) { EXPECT_EQ(answer, number + 1); },
                 [](const caf::error&) { ADD_FAILURE(); });
  };
  ask(0);
  const auto before = sleeps_of(workers);
  for (int i = 0; i < 1000; ++i)
    ask(i);
  EXPECT_LE(sleeps_of(workers) - before, 1050u) << "a worker sleeps once for each request";
  caf::anon_send_exit(other, caf::exit_reason::user_shutdown);
}

TEST_F(clocked, a_request_without_an_answer_ends_at_its_time) {
  auto silent = system_.spawn(
      [](caf::event_based_actor* actor, int) -> caf::behavior {
        return {[actor](int) { return actor->make_response_promise(); }};
      },
      0);
  caf::scoped_actor self{system_};
  for (const auto patience : {200ms, 50ms, 100ms}) {
    const auto begun = steady_clock::now();
    self->request(silent, patience, 1)
        .receive([](int) { ADD_FAILURE(); },
                 [](const caf::error& why) { EXPECT_EQ(why, caf::sec::request_timeout); });
    EXPECT_GE(steady_clock::now() - begun, patience);
  }
  caf::anon_send_exit(silent, caf::exit_reason::user_shutdown);
}

TEST_F(clocked, a_timer_that_is_due_before_all_others_comes_first) {
  caf::scoped_actor self{system_};
  self->delayed_send(self, 300ms, 3);
  self->delayed_send(self, 100ms, 1);
  self->delayed_send(self, 200ms, 2);
  for (int expected : {1, 2, 3})
    self->receive([&](int came) { EXPECT_EQ(came, expected); });
}

TEST_F(clocked, timers_whose_times_are_close_wake_a_worker_together) {
  constexpr int count = 400;
  caf::scoped_actor self{system_};
  const auto before = sleeps_of(workers);
  for (int i = 0; i < count; ++i)
    self->delayed_send(self, 500ms + i * 100us, i);
  for (int i = 0; i < count; ++i)
    self->receive([&](int) {});
  EXPECT_LE(sleeps_of(workers) - before, 40u);
}

TEST_F(clocked, a_beat_wakes_one_worker) {
  constexpr int beats = 40;
  std::promise<void> all;
  const auto before = sleeps_of(workers), late_before = sleeps_of("peercache-clock");
  auto beating = system_.spawn(
      [&all](caf::event_based_actor* actor, int first) -> caf::behavior {
        actor->delayed_send(actor, 20ms, first);
        return {[actor, &all](int count) {
          if (count == beats)
            all.set_value();
          else
            actor->delayed_send(actor, 20ms, count + 1);
        }};
      },
      1);
  all.get_future().wait();
  EXPECT_LE(sleeps_of(workers) - before, beats + beats / 2) << "a sleep is one for each beat";
  EXPECT_LE(sleeps_of("peercache-clock") - late_before, beats / 2)
      << "no worker looks at the clock";
  caf::anon_send_exit(beating, caf::exit_reason::user_shutdown);
}

TEST(timers, ring_though_a_forked_child_wants_no_alarm) {
  std::promise<void> looked;
  bool rang = false;
  timers clock{[](caf::actor_clock::time_point) {},
               [&] {
                 if (!std::exchange(rang, true))
                   looked.set_value();
               }};
  clock.look_after();
  const auto child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    clock.sleep_until_first(); // Disarms the alarm, if it is this process's.
    ::_exit(0);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  std::thread runs([&] { clock.run(); });
  EXPECT_EQ(looked.get_future().wait_for(10s), std::future_status::ready);
  clock.stop();
  runs.join();
}

TEST(together_with_others, is_never_early_and_late_by_a_part_of_the_wait) {
  const caf::actor_clock::time_point now{1h + 123'456'789ns};
  for (const auto wait :
       {0ns, 1ns, 63ns, 64ns, 1'000'000ns, 50'000'001ns, 1'000'000'000ns, 3'600'000'000'000ns}) {
    const auto due = now + wait, at = together_with_others(due, now);
    EXPECT_GE(at, due);
    EXPECT_LE(at - due, std::min<std::chrono::nanoseconds>(wait / 64, 8389us)) << wait.count();
  }
  EXPECT_EQ(together_with_others(now + 1s, now), together_with_others(now + 1001ms, now + 1ms));
  constexpr auto never = caf::actor_clock::time_point::max();
  EXPECT_EQ(together_with_others(never, now), never);
}

TEST(together_with_others, leaves_the_times_of_beats) {
  const caf::actor_clock::time_point now{1h + 123'456'789ns};
  for (const auto period : {50ms, 125ms, 250ms, 500ms, 1000ms}) {
    const auto beat = next_beat(now, period);
    EXPECT_EQ(together_with_others(beat, now), beat) << period.count();
  }
}

TEST_F(clocked, a_system_ends_at_once_though_timers_are_left) {
  const auto begun = steady_clock::now();
  {
    system_config config{1};
    caf::actor_system system{config};
    auto actor = system.spawn(echo, 1);
    {
      caf::scoped_actor self{system};
      self->delayed_send(actor, 60s, 1);
      self->request(actor, 60s, 1).receive([](int) {}, [](const caf::error&) {});
    }
    caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
    actor = nullptr;
    leave_actor_system();
  }
  EXPECT_LT(steady_clock::now() - begun, 20s);
}

} // namespace
} // namespace peercache::link
