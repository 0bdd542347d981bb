// Tests of the workers of PeerCache's actor systems, which share one queue and its clock.

#include "link/job_queue.hpp"
#include "link/protocol/internal.hpp"
#include "link/system_config.hpp"

#include <atomic>
#include <caf/all.hpp>
#include <chrono>
#include <fstream>
#include <functional>
#include <future>
#include <gtest/gtest.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>

namespace peercache::link {
namespace {

using namespace std::chrono_literals;

constexpr int go_on = 1, came = 2;

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

/// A system with two workers, of which one is held up once the test has asked for it.
class with_a_worker_held_up : public testing::Test {
protected:
  ~with_a_worker_held_up() override {
    slow_.gate.set_value();
    caf::anon_send_exit(actor_, caf::exit_reason::user_shutdown);
    actor_ = nullptr;
    leave_actor_system();
  }

  void hold_up_one() {
    actor_ = system_.spawn([this](caf::event_based_actor* own) {
      return slow_(own, caf::actor_cast<caf::actor>(self_));
    });
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

  system_config config_{2};
  caf::actor_system system_{config_};
  caf::scoped_actor self_{system_};
  held_up slow_;
  caf::actor actor_;
};

TEST_F(with_a_worker_held_up, timers_of_other_threads_are_delivered_by_the_other_worker) {
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
    auto restless = system.spawn([](caf::event_based_actor* own) -> caf::behavior {
      return {[own](int number) { own->send(own, number); }};
    });
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

/// A job that a test's thread runs itself.
struct plain_job final : caf::resumable {
  explicit plain_job(std::function<void()> does) : run(std::move(does)) {}
  resume_result resume(caf::execution_unit*, std::size_t) override { return done; }
  void intrusive_ptr_add_ref_impl() override {}
  void intrusive_ptr_release_impl() override {}

  std::function<void()> run;
};

/// Runs the jobs of a queue until it is told to end.
class plain_worker {
public:
  explicit plain_worker(job_queue& jobs)
      : thread_([this, &jobs] {
          id_ = ::gettid();
          while (auto* job = jobs.pop(bed_))
            dynamic_cast<plain_job&>(*job).run();
        }) {}
  ~plain_worker() { thread_.join(); }
  plain_worker(const plain_worker&) = delete;
  plain_worker& operator=(const plain_worker&) = delete;

  /// Waits until the worker's thread sleeps.
  void wait_for_sleep() const {
    for (char state = 0; state != 'S'; std::this_thread::yield()) {
      std::ifstream stat("/proc/self/task/" + std::to_string(id_.load()) + "/stat");
      std::string id, name;
      stat >> id >> name >> state;
    }
  }

private:
  std::atomic<pid_t> id_ = 0;
  job_queue::bed bed_;
  std::thread thread_;
};

TEST(job_queue, timers_of_a_worker_that_is_held_up_are_delivered_by_one_that_sleeps) {
  caf::actor_system_config config;
  caf::actor_system system{config};
  caf::scoped_actor self{system};
  job_queue jobs;
  held_up slow;
  plain_job job([&] {
    jobs.clock().schedule_message(
        jobs.clock().now() + 100ms, caf::actor_cast<caf::strong_actor_ptr>(self),
        caf::make_mailbox_element(nullptr, caf::make_message_id(), {}, came));
    slow.gate.get_future().wait();
  });
  bool in_time = true;
  {
    plain_worker one(jobs), other(jobs);
    one.wait_for_sleep();
    other.wait_for_sleep();
    jobs.push(&job);
    self->receive([](int number) { EXPECT_EQ(number, came); },
                  caf::after(30s) >> [&] { in_time = false; });
    slow.gate.set_value();
    jobs.push(nullptr);
    jobs.push(nullptr);
  }
  EXPECT_TRUE(in_time);
}

} // namespace
} // namespace peercache::link
