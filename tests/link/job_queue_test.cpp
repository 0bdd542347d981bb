// Tests of the workers of PeerCache's actor systems, which share one queue and its clock.

#include "link/job_queue.hpp"
#include "link/protocol/internal.hpp"
#include "link/system_config.hpp"

#include <caf/all.hpp>
#include <chrono>
#include <cstddef>
#include <future>
#include <gtest/gtest.h>

namespace peercache::link {
namespace {

using namespace std::chrono_literals;

constexpr int go_on = 1, came = 2;
/// An argument for actors that need none: without one CAF 0.17 binds a reference to a null pointer.
constexpr int unused = 0;

/// Occupies a worker until `gate` opens. Says `busy` first, after it has set a timer for `whom`.
struct held_up {
  std::promise<void> busy;
  std::promise<void> gate;

  caf::behavior operator()(caf::event_based_actor* self, const caf::actor& whom) {
    return {[this, self, whom](int) {
      self->delayed_send(whom, 100ms, came);
      busy.set_value();
      gate.get_future().wait();
    }};
  }
};

/// A system whose workers are all held up, or all but one that sleeps, once the test asks for it.
class with_a_worker_held_up : public testing::TestWithParam<std::size_t> {
protected:
  ~with_a_worker_held_up() override {
    slow_.gate.set_value();
    caf::anon_send_exit(actor_, caf::exit_reason::user_shutdown);
    actor_ = nullptr;
    leave_actor_system();
  }

  void hold_up_one() {
    actor_ = system_.spawn([this](caf::event_based_actor* own,
                                  int) { return slow_(own, caf::actor_cast<caf::actor>(self_)); },
                           unused);
    caf::anon_send(actor_, go_on);
    slow_.busy.get_future().wait();
  }
  /// Whether a timer's message comes, though the worker is held up.
  bool comes() {
    bool in_time = true;
    self_->receive([](int number) { EXPECT_EQ(number, came); },
                   caf::after(30s) >> [&] { in_time = false; });
    return in_time;
  }

  system_config config_{GetParam()};
  caf::actor_system system_{config_};
  caf::scoped_actor self_{system_};
  held_up slow_;
  caf::actor actor_;
};

INSTANTIATE_TEST_SUITE_P(workers, with_a_worker_held_up, testing::Values(1u, 2u));

TEST_P(with_a_worker_held_up, its_own_timers_come) {
  hold_up_one();
  EXPECT_TRUE(comes());
}

TEST_P(with_a_worker_held_up, timers_of_other_threads_come) {
  hold_up_one();
  EXPECT_TRUE(comes());
  self_->delayed_send(self_, 100ms, came);
  EXPECT_TRUE(comes());
}

TEST(job_queue, an_actor_that_always_has_messages_holds_up_no_timer) {
  system_config config{1};
  caf::actor_system system{config};
  {
    caf::scoped_actor self{system};
    auto restless = system.spawn(
        [](caf::event_based_actor* own, int) -> caf::behavior {
          return {[own](int number) { own->send(own, number); }};
        },
        unused);
    caf::anon_send(restless, go_on);
    self->delayed_send(self, 50ms, came);
    bool in_time = true;
    self->receive([](int number) { EXPECT_EQ(number, came); },
                  caf::after(30s) >> [&] { in_time = false; });
    EXPECT_TRUE(in_time);
    caf::anon_send_exit(restless, caf::exit_reason::kill);
  }
  leave_actor_system();
}

} // namespace
} // namespace peercache::link
