#include "rdma/data_plane_loop.hpp"

#include "net/socket.hpp"
#include "tests/rdma/plane_rig.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <thread>

namespace peercache::rdma::data_plane_loop_test {
namespace {

using namespace std::chrono_literals;

/// A data plane that completes a batch in a given one of its polls, and counts how often its thread
/// is woken.
class counted_plane final : public data_plane {
public:
  void submit(read_batch& batch) override { batch_ = &batch; }
  void cancel(const read_batch&) override {}
  bool read_now(read_batch& batch, clock::time_point, clock::duration) override {
    if (polls_needed > 0) {
      submit(batch);
      return false;
    }
    batch.fail(page_status::hit);
    return true;
  }
  bool poll(clock::time_point) override {
    ++polls;
    if (batch_ == nullptr || --polls_needed > 0)
      return false;
    std::exchange(batch_, nullptr)->fail(page_status::hit);
    return true;
  }
  void wait(clock::duration) override {}
  void wake() noexcept override { ++wakes; }
  int descriptor() const noexcept override { return 0; }
  void shutdown() override {}
  data_plane_stats stats() const override { return {}; }

  int polls_needed = 0; ///< 0: the batch is complete when `read_now` returns.
  int polls = 0;
  int wakes = 0;

private:
  read_batch* batch_ = nullptr;
};

class data_plane_loop_test : public testing::Test {
protected:
  static data_plane_loop_options options() {
    data_plane_loop_options options;
    options.callers = callers_run::polling;
    options.caller_run_max = 60s;
    return options;
  }
  void SetUp() override { batch.pages.resize(1); }

  counted_plane plane;
  data_plane_loop loop{plane, options()};
  read_batch batch;
};

TEST_F(data_plane_loop_test, a_caller_whose_batch_is_complete_at_once_wakes_nobody) {
  loop.read_now(batch);
  EXPECT_TRUE(batch.complete());
  EXPECT_EQ(plane.wakes, 0);
}

/// The poll of the caller may have taken the event that should have woken the plane's thread for
/// another batch.
TEST_F(data_plane_loop_test, a_caller_that_has_polled_the_plane_wakes_its_thread) {
  plane.polls_needed = 3;
  loop.read_now(batch);
  // Where a caller must not spin, it leaves the batch to the thread.
  EXPECT_EQ(plane.polls, batch.complete() ? 3 : 0);
  EXPECT_EQ(plane.wakes, 1);
}

TEST_F(data_plane_loop_test, a_caller_that_took_the_batch_of_another_one_wakes_the_thread) {
  read_batch other;
  other.pages.resize(1);
  loop.submit(other);
  loop.read_now(batch);
  EXPECT_TRUE(batch.complete());
  EXPECT_FALSE(other.complete());
  EXPECT_EQ(plane.wakes, 1);
}

TEST_F(data_plane_loop_test, a_batch_with_a_listener_is_left_to_the_thread) {
  struct : batch_listener {
    void on_complete() noexcept override {}
  } listener;
  batch.listener = &listener;
  plane.polls_needed = 1;
  loop.read_now(batch);
  EXPECT_FALSE(batch.complete());
  EXPECT_EQ(plane.polls, 0);
  EXPECT_EQ(plane.wakes, 1);
}

/// A data plane whose batches are complete when there are `enough`, and which notes who runs it.
class sleepy_plane final : public data_plane {
public:
  void submit(read_batch& batch) override { batches_.push_back(&batch); }
  void cancel(const read_batch&) override {}
  bool read_now(read_batch& batch, clock::time_point, clock::duration) override {
    submit(batch);
    if (meanwhile)
      std::exchange(meanwhile, {})();
    return false;
  }
  bool poll(clock::time_point) override {
    events_->collect(0ns);
    if (batches_.size() < enough)
      return false;
    polled_by = std::this_thread::get_id();
    for (auto* batch : std::exchange(batches_, {}))
      batch->fail(page_status::hit);
    return true;
  }
  bool idle() const noexcept override { return batches_.empty(); }
  void wait(clock::duration at_most) override {
    waits = true;
    events_->collect(at_most);
    waits = false;
  }
  void wake() noexcept override { events_->wake(); }
  int descriptor() const noexcept override { return events_->descriptor(); }
  void shutdown() override {}
  data_plane_stats stats() const override { return {}; }

  std::size_t enough = 1;
  std::function<void()> meanwhile; ///< Called once, while a caller runs the plane.
  std::thread::id polled_by;       ///< The thread that completed batches last.
  std::atomic<bool> waits{false};

private:
  result<net::event_poll> events_ = net::event_poll::create();
  std::vector<read_batch*> batches_;
};

/// A loop in a thread of its own, whose callers sleep; it never wakes by a timer.
class sleeping_callers {
public:
  explicit sleeping_callers(std::size_t enough) : loop(plane, options()) {
    plane.enough = enough;
    thread_ = std::thread([this] { loop.run(stop_); });
  }
  ~sleeping_callers() {
    stop_ = true;
    loop.wake();
    thread_.join();
  }
  static data_plane_loop_options options() {
    data_plane_loop_options options;
    options.callers = callers_run::sleeping;
    options.spin = {};
    options.sleep_max = options.caller_run_max = 1h;
    return options;
  }

  sleepy_plane plane;
  data_plane_loop loop;

private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

TEST(sleeping_callers, run_the_plane_of_a_thread_that_is_parked) {
  sleeping_callers rig(1);
  read_batch batch;
  do {
    batch.reset();
    rig.loop.read_now(batch);
    batch.wait();
  } while (rig.plane.polled_by != std::this_thread::get_id());
}

/// The batch of a caller that sleeps needs another one: it waits for ever unless the other one's
/// submitter reaches the plane at once.
TEST(sleeping_callers, give_way_to_what_others_submit) {
  for (bool slept = false; !slept;) {
    sleeping_callers rig(2);
    std::atomic<bool> given{false};
    read_batch first, second;
    std::thread::id slept_in;
    std::thread caller([&] {
      slept_in = std::this_thread::get_id();
      rig.loop.read_now(first);
      given = true;
    });
    while (!given && !rig.plane.waits)
      std::this_thread::yield();
    slept = rig.plane.waits;
    rig.loop.submit(second);
    second.wait();
    caller.join();
    EXPECT_TRUE(first.complete());
    EXPECT_NE(rig.plane.polled_by, slept_in) << "the thread goes on with both";
  }
}

/// A poll of the caller takes the event of the wake, before the caller sleeps.
TEST(sleeping_callers, do_not_sleep_over_what_came_before) {
  for (bool ran = false; !ran;) {
    sleeping_callers rig(2);
    read_batch first, second;
    rig.plane.meanwhile = [&] {
      ran = true;
      rig.loop.submit(second);
    };
    rig.loop.read_now(first);
    if (!ran)
      rig.loop.submit(second);
    second.wait();
    first.wait();
  }
}

TEST(sleeping_callers, and_the_planes_thread_take_turns_over_tcp) {
  test_pool pool;
  tcp_rig rig;
  rig.serve(pool, {1, 1});
  std::vector<std::unique_ptr<test_batch>> batches;
  for (int caller = 0; caller < 4; ++caller)
    batches.push_back(std::make_unique<test_batch>(pool, 2, 30'000));
  auto options = sleeping_callers::options();
  options.caller_run_max = 1ms;
  data_plane_loop loop(rig.plane(), options);
  std::atomic<bool> stop{false};
  std::thread runner([&] { loop.run(stop); });
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0}, running{4};
  for (auto& batch : batches)
    callers.emplace_back([&, mine = batch.get()] {
      for (int i = 0; i < 500; ++i) {
        mine->batch.reset();
        mine->lay_out();
        mine->batch.peer = rig.peer({1, 1});
        mine->batch.deadline = clock::now() + 60s;
        i % 3 == 0 ? loop.submit(mine->batch) : loop.read_now(mine->batch);
        mine->batch.wait();
        wrong +=
            mine->all(page_status::hit) && mine->holds(pool, 0) && mine->holds(pool, 1) ? 0 : 1;
      }
      --running;
    });
  while (running > 0)
    if (!rig.server->poll(clock::now()))
      rig.server->wait(1ms);
  for (auto& caller : callers)
    caller.join();
  stop = true;
  loop.wake();
  runner.join();
  EXPECT_EQ(wrong, 0);
}

} // namespace
} // namespace peercache::rdma::data_plane_loop_test
