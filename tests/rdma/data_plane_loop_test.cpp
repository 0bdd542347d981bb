#include "rdma/data_plane_loop.hpp"

#include <gtest/gtest.h>

namespace peercache::rdma::data_plane_loop_test {
namespace {

using namespace std::chrono_literals;

/// A data plane that completes a batch in a given one of its polls, and counts how often its thread
/// is woken.
class counted_plane final : public data_plane {
public:
  void submit(read_batch& batch) override { batch_ = &batch; }
  void cancel(const read_batch&) override {}
  bool read_now(read_batch& batch, clock::duration) override {
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
  static data_plane_loop_options callers_run() {
    data_plane_loop_options options;
    options.callers_run = true;
    options.caller_run_max = 60s;
    return options;
  }
  void SetUp() override { batch.pages.resize(1); }

  counted_plane plane;
  data_plane_loop loop{plane, callers_run()};
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

} // namespace
} // namespace peercache::rdma::data_plane_loop_test
