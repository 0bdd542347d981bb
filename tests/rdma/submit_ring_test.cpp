#include "rdma/data_plane_loop.hpp"
#include "rdma/submit_ring.hpp"
#include "tests/fakes/memory_data_plane.hpp"
#include "tests/rdma/plane_rig.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace peercache::rdma::submit_ring_test {
namespace {

/// A data plane that records its calls, and with `finishes` ends each batch at once.
class recording_plane final : public data_plane {
public:
  void submit(read_batch& batch) override {
    taken.push_back(&batch);
    if (finishes)
      batch.fail(page_status::not_found);
  }
  void cancel(const read_batch& batch) override { cancelled.push_back(&batch); }
  bool poll(clock::time_point) override { return false; }
  void wait(clock::duration) override {}
  void wake() noexcept override { ++wakes; }
  void shutdown() override { shut_down = true; }
  data_plane_stats stats() const override { return {}; }

  std::vector<read_batch*> taken;
  std::vector<const read_batch*> cancelled;
  std::atomic<int> wakes{0};
  bool finishes = false;
  bool shut_down = false;
};

TEST(submit_ring, batches_reach_the_plane_in_order) {
  recording_plane plane;
  submit_ring ring(plane, 4, [&] { plane.wake(); });
  read_batch batches[3];
  for (auto& batch : batches)
    ring.submit(batch);
  EXPECT_TRUE(ring.drain());
  EXPECT_EQ(plane.taken, (std::vector<read_batch*>{&batches[0], &batches[1], &batches[2]}));
  EXPECT_FALSE(ring.drain());
}

TEST(submit_ring, a_full_ring_refuses_and_takes_again_once_drained) {
  recording_plane plane;
  submit_ring ring(plane, 4, [&] { plane.wake(); });
  read_batch batches[5];
  for (auto& batch : batches) {
    batch.pages.resize(2);
    ring.submit(batch);
  }
  EXPECT_FALSE(batches[3].complete());
  ASSERT_TRUE(batches[4].complete());
  EXPECT_EQ(batches[4].pages[1].status, page_status::refused);
  ring.drain();
  batches[4].reset();
  ring.submit(batches[4]);
  EXPECT_FALSE(batches[4].complete());
  ring.drain();
  EXPECT_EQ(plane.taken.size(), 5u);
}

TEST(submit_ring, only_a_sleeping_plane_is_woken_and_only_once) {
  recording_plane plane;
  submit_ring ring(plane, 8, [&] { plane.wake(); });
  read_batch batches[4];
  ring.submit(batches[0]);
  EXPECT_EQ(plane.wakes, 0);
  EXPECT_FALSE(ring.prepare_sleep()) << "something is in the ring";
  ring.drain();
  EXPECT_TRUE(ring.prepare_sleep());
  ring.submit(batches[1]);
  ring.submit(batches[2]);
  EXPECT_EQ(plane.wakes, 1);
  ring.awake();
  ring.submit(batches[3]);
  EXPECT_EQ(plane.wakes, 1);
}

TEST(submit_ring, closing_finishes_what_is_inside_and_what_comes) {
  recording_plane plane;
  submit_ring ring(plane, 4, [&] { plane.wake(); });
  read_batch inside, late;
  inside.pages.resize(1);
  late.pages.resize(1);
  ring.submit(inside);
  ring.close();
  ring.submit(late);
  ASSERT_TRUE(inside.complete() && late.complete());
  EXPECT_EQ(inside.pages[0].status, page_status::closed);
  EXPECT_EQ(late.pages[0].status, page_status::closed);
  EXPECT_TRUE(plane.taken.empty());
}

TEST(submit_ring, a_cancel_follows_its_batch_and_wakes_a_sleeping_plane) {
  recording_plane plane;
  submit_ring ring(plane, 4, [&] { plane.wake(); });
  read_batch batch;
  ring.submit(batch);
  ring.cancel(batch);
  ring.drain();
  EXPECT_EQ(plane.taken, std::vector{&batch});
  EXPECT_EQ(plane.cancelled, std::vector<const read_batch*>{&batch});
  EXPECT_TRUE(ring.prepare_sleep());
  ring.cancel(batch);
  EXPECT_EQ(plane.wakes, 1);
}

TEST(submit_ring, closing_looks_at_no_batch_that_was_cancelled) {
  recording_plane plane;
  submit_ring ring(plane, 4, [&] { plane.wake(); });
  auto gone = std::make_unique<read_batch>();
  gone->finish();
  ring.cancel(*gone);
  gone.reset();
  ring.close();
  read_batch late;
  ring.cancel(late);
  EXPECT_FALSE(ring.drain());
  EXPECT_FALSE(late.complete());
}

TEST(submit_ring, a_cancel_waits_for_room_in_a_full_ring) {
  recording_plane plane;
  submit_ring ring(plane, 2, [&] { plane.wake(); });
  read_batch batches[2];
  for (auto& batch : batches)
    ring.submit(batch);
  std::atomic<bool> returned{false};
  std::thread canceller([&] {
    ring.cancel(batches[0]);
    returned = true;
  });
  EXPECT_FALSE(returned);
  while (plane.cancelled.empty())
    ring.drain();
  canceller.join();
  EXPECT_EQ(plane.taken.size(), 2u);
}

/// A listener that, once its batch is complete, frees the batch, as an owner may.
struct freeing_listener final : batch_listener {
  void on_complete() noexcept override {
    ++calls;
    was_complete = batch->complete();
    batch.reset();
  }
  std::unique_ptr<read_batch> batch = std::make_unique<read_batch>();
  int calls = 0;
  bool was_complete = false;
};

TEST(read_batch, tells_its_listener_once_when_it_is_complete_and_may_be_freed) {
  freeing_listener listener;
  listener.batch->pages.resize(1);
  listener.batch->listener = &listener;
  EXPECT_EQ(listener.calls, 0);
  listener.batch->fail(page_status::closed);
  EXPECT_EQ(listener.calls, 1);
  EXPECT_TRUE(listener.was_complete);
}

TEST(read_batch, can_be_used_again_after_reset) {
  read_batch batch;
  batch.finish();
  EXPECT_TRUE(batch.complete());
  batch.wait();
  batch.reset();
  EXPECT_FALSE(batch.complete());
  batch.finish();
  EXPECT_TRUE(batch.complete());
}

// Uses real threads, to find races between them. Each thread waits for conditions; none sleeps.

TEST(data_plane_loop, every_batch_of_many_callers_completes_also_across_the_end) {
  constexpr int callers = 4;
  constexpr int batches_each = 20'000;
  recording_plane plane;
  plane.finishes = true;
  data_plane_loop loop(plane, {.ring_capacity = 16, .spin = {}, .sleep_max = {}});
  std::atomic<bool> stop{false};
  std::atomic<int> by_status[page_status_count] = {};
  std::thread runner([&] { loop.run(stop); });
  std::vector<std::thread> threads;
  for (int i = 0; i < callers; ++i)
    threads.emplace_back([&] {
      read_batch batch;
      batch.pages.resize(1);
      for (int n = 0; n < batches_each; ++n) {
        batch.reset();
        loop.submit(batch);
        batch.wait();
        ++by_status[static_cast<std::size_t>(batch.pages[0].status)];
        if (n == batches_each / 2)
          stop = true;
      }
    });
  for (auto& thread : threads)
    thread.join();
  runner.join();
  const auto of = [&](page_status status) {
    return by_status[static_cast<std::size_t>(status)].load();
  };
  EXPECT_TRUE(plane.shut_down);
  EXPECT_GE(of(page_status::not_found), batches_each / 2);
  EXPECT_GT(of(page_status::closed), 0);
  EXPECT_EQ(of(page_status::not_found) + of(page_status::closed) + of(page_status::refused),
            callers * batches_each);
}

TEST(data_plane_loop, a_sleeping_plane_is_woken_by_a_batch) {
  test_pool pool;
  memory_network network;
  network.attach("host", 1, {1, 1}, pool);
  memory_data_plane plane(network, {.seed = 3});
  data_plane_loop loop(plane, {.spin = {}, .sleep_max = std::chrono::hours(1)});
  std::atomic<bool> stop{false};
  std::thread runner([&] { loop.run(stop); });
  for (int i = 0; i < 50; ++i) {
    test_batch what(pool, 3, 1000);
    what.batch.peer = {{1}, {1, 1}, "host", 1, "c"};
    what.batch.deadline = clock::now() + std::chrono::seconds(30);
    loop.submit(what.batch);
    what.batch.wait();
    ASSERT_TRUE(what.all(page_status::hit)) << i;
  }
  stop = true;
  loop.wake();
  runner.join();
}

} // namespace
} // namespace peercache::rdma::submit_ring_test
