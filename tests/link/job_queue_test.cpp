// Tests of the workers of PeerCache's actor systems, which share one queue and its clock.

#include "link/job_queue.hpp"
#include "link/protocol/internal.hpp"
#include "link/system_config.hpp"
#include "tests/support/thread_sleeps.hpp"

#include <caf/all.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <future>
#include <gtest/gtest.h>
#include <latch>
#include <pthread.h>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace peercache::link {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

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

/// Waits until all workers sleep: only then does a job call one.
void wait_for_sleep(std::string_view workers = "peercache-actor", std::size_t count = 2) {
  while (!tests::all_sleep(workers, count))
    std::this_thread::yield();
}

TEST(job_queue, a_message_from_actor_to_actor_wakes_no_thread) {
  constexpr int rounds = 100;
  system_config config{2};
  caf::actor_system system{config};
  {
    caf::scoped_actor self{system};
    auto last = system.spawn(
        [](caf::event_based_actor*, int more) -> caf::behavior {
          return {[more](int number) { return number + more; }};
        },
        came);
    auto first = system.spawn(
        [last](caf::event_based_actor* own, int) -> caf::behavior {
          return {[own, last](int number) { return own->delegate(last, number); }};
        },
        unused);
    std::uint64_t sleeps = 0;
    for (int i = 0; i < rounds; ++i) {
      wait_for_sleep();
      const auto before = tests::sleeps_of("peercache-actor");
      self->request(first, caf::infinite, i)
          .receive([&](int number) { EXPECT_EQ(number, i + came); },
                   [](const caf::error&) { ADD_FAILURE(); });
      wait_for_sleep();
      sleeps += tests::sleeps_of("peercache-actor") - before;
    }
    EXPECT_LE(sleeps, rounds + rounds / 4u) << "one worker wakes, and sleeps again";
    caf::anon_send_exit(first, caf::exit_reason::kill);
    caf::anon_send_exit(last, caf::exit_reason::kill);
  }
  leave_actor_system();
}

/// Work for a queue without actors, and so without timers.
class job : public caf::resumable {
public:
  explicit job(std::function<void()> work) : work_(std::move(work)) {}
  resume_result resume(caf::execution_unit*, std::size_t) override {
    work_();
    return done;
  }
  void intrusive_ptr_add_ref_impl() override {}
  void intrusive_ptr_release_impl() override {}

private:
  std::function<void()> work_;
};

TEST(job_queue, jobs_whose_worker_is_held_up_get_others) {
  job_queue queue;
  const auto work = [&queue] {
    ::pthread_setname_np(::pthread_self(), "test-worker");
    for (job_queue::bed own; auto* next = queue.pop(own);)
      next->resume(nullptr, 1);
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back(work);
  threads.emplace_back([&queue] { queue.clock().run(); });
  std::promise<bool> in_time;
  // Each of the three holds its worker up until the others run.
  std::latch all_run(3);
  const auto waits = [&all_run] {
    all_run.count_down();
    for (const auto until = steady_clock::now() + 30s; steady_clock::now() < until;)
      if (all_run.try_wait())
        return true;
    return false;
  };
  job one([&] { waits(); }), other([&] { waits(); });
  job first([&] {
    queue.push(&one);
    queue.push(&other);
    in_time.set_value(waits());
  });
  wait_for_sleep("test-worker", 3);
  queue.push(&first);
  EXPECT_TRUE(in_time.get_future().get());
  for (int i = 0; i < 3; ++i)
    queue.push(nullptr);
  for (int i = 0; i < 3; ++i)
    threads[i].join();
  queue.clock().stop();
  threads[3].join();
}

} // namespace
} // namespace peercache::link
