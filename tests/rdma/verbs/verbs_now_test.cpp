// Tests of reads that the calling thread works on itself: no turn of the plane's loop is needed,
// and what takes longer becomes a batch like any other.

#include "rdma/data_plane_loop.hpp"
#include "tests/rdma/verbs/area_batch.hpp"
#include "tests/rdma/verbs/verbs_rig.hpp"
#include "tests/support/fake_verbs/fake_verbs.hpp"

#include <thread>

namespace peercache::rdma::verbs_now_test {
namespace {

using namespace std::chrono_literals;

constexpr incarnation life{1, 1};
constexpr std::uint32_t line_bytes = 64;

class verbs_now : public testing::Test {
protected:
  verbs_now() {
    fabric.add(tests::roce_device("fake0", 1));
    fabric.add(tests::roce_device("fake1", 2));
    rig.emplace(verbs_rig_devices{"fake0", "fake1", [this](plane_rig& one) {
                                    one.now += 10us;
                                    fabric.advance(10us);
                                  }});
    rig->serve(pool, life);
    EXPECT_TRUE(rig->server->add_area(area));
  }

  void TearDown() override {
    rig->plane().shutdown();
    rig.reset();
    EXPECT_TRUE(fabric.objects().none());
    EXPECT_EQ(fabric.misuse(), std::vector<std::string>{});
  }

  void aim(area_batch& what, clock::duration time = 5s) {
    what.clear();
    for (std::size_t i = 0; i < 20; ++i)
      what.add(&area[i * 4096]);
    what.from(reinterpret_cast<std::uint64_t>(area.data()));
    what.batch.peer = rig->peer(life);
    what.batch.deadline = rig->now + time;
  }
  void expect_right(const area_batch& what) {
    EXPECT_TRUE(what.all(page_status::hit));
    for (std::size_t i = 0; i < 20; ++i)
      EXPECT_TRUE(what.holds(i, &area[i * 4096]));
  }
  /// Lets a connection be made, which is idle afterwards.
  void connect() {
    test_batch first(pool, 1, 100);
    rig->read(first, life);
    ASSERT_TRUE(first.all(page_status::hit));
    rig->steps(5);
  }

  tests::fake_fabric fabric{7};
  test_pool pool;
  std::vector<std::byte> area = numbered_bytes(1u << 20, 1);
  std::optional<verbs_rig> rig;
  area_batch what{line_bytes};
};

TEST_F(verbs_now, over_an_idle_connection_a_batch_is_complete_without_a_poll) {
  connect();
  for (int i = 0; i < 3; ++i) {
    aim(what);
    EXPECT_TRUE(rig->plane().read_now(what.batch, rig->now, 1s));
    ASSERT_TRUE(what.batch.complete());
    expect_right(what);
  }
  EXPECT_EQ(rig->plane().stats().by_status[static_cast<std::size_t>(page_status::hit)], 61u);
}

TEST_F(verbs_now, pages_are_judged_as_ever) {
  connect();
  test_batch pages(pool, 3, 5000);
  rig->place(pages);
  pages.batch.pages[1].gen.value += 2;
  pages.batch.peer = rig->peer(life);
  pages.batch.deadline = rig->now + 5s;
  EXPECT_TRUE(rig->plane().read_now(pages.batch, rig->now, 1s));
  EXPECT_EQ(pages.batch.pages[0].status, page_status::hit);
  EXPECT_EQ(pages.batch.pages[1].status, page_status::stale);
  EXPECT_TRUE(pages.holds(pool, 0));
  EXPECT_GT(rig->rail->counters.fences, 0u);
}

TEST_F(verbs_now, without_a_connection_it_is_a_batch_like_any_other) {
  aim(what);
  EXPECT_FALSE(rig->plane().read_now(what.batch, rig->now, 1s));
  EXPECT_FALSE(what.batch.complete());
  while (!what.batch.complete())
    rig->step();
  // The area is announced a moment after the pool, so the first answer may come before it.
  while (what.all(page_status::unreachable)) {
    rig->step();
    aim(what);
    rig->plane().read_now(what.batch, rig->now, 1s);
    while (!what.batch.complete())
      rig->step();
  }
  expect_right(what);
}

TEST_F(verbs_now, work_that_takes_longer_goes_on_in_the_loop) {
  connect();
  fabric.set_delay(50us, 90us);
  aim(what);
  EXPECT_FALSE(rig->plane().read_now(what.batch, rig->now, 0s));
  EXPECT_FALSE(what.batch.complete());
  while (!what.batch.complete())
    rig->step();
  expect_right(what);
  fabric.set_delay(0us, 0us);
  aim(what);
  EXPECT_TRUE(rig->plane().read_now(what.batch, rig->now, 1s)) << "the connection is idle again";
}

TEST_F(verbs_now, a_deadline_and_a_cancel_end_what_was_left_to_the_loop) {
  connect();
  fabric.set_delay(1s, 1s);
  aim(what, 1ms);
  EXPECT_FALSE(rig->plane().read_now(what.batch, rig->now, 0s));
  while (!what.batch.complete())
    rig->step();
  EXPECT_TRUE(what.all(page_status::timed_out));
  fabric.set_delay(0us, 0us);
  connect();
  fabric.set_delay(1s, 1s);
  aim(what);
  EXPECT_FALSE(rig->plane().read_now(what.batch, rig->now, 0s));
  rig->plane().cancel(what.batch);
  EXPECT_TRUE(what.batch.complete());
  EXPECT_TRUE(what.all(page_status::closed));
  const auto returned = std::vector(what.memory().begin(), what.memory().end());
  fabric.advance(2s);
  EXPECT_TRUE(std::equal(returned.begin(), returned.end(), what.memory().begin()));
}

TEST_F(verbs_now, a_connection_that_breaks_at_once_is_made_anew) {
  connect();
  fabric.fail(tests::fake_call::post_send, EIO);
  aim(what);
  EXPECT_FALSE(rig->plane().read_now(what.batch, rig->now, 1s));
  while (!what.batch.complete())
    rig->step();
  EXPECT_EQ(rig->plane().stats().connects, 2u);
  connect();
  aim(what);
  EXPECT_TRUE(rig->plane().read_now(what.batch, rig->now, 1s));
  expect_right(what);
}

TEST_F(verbs_now, a_batch_without_any_piece_to_ask_for_ends_at_once) {
  connect();
  aim(what);
  for (auto& page : what.batch.pages)
    page.source.rows = 0;
  EXPECT_TRUE(rig->plane().read_now(what.batch, rig->now, 1s));
  EXPECT_TRUE(what.all(page_status::bad_size));
}

TEST_F(verbs_now, a_batch_whose_time_is_over_harms_no_connection) {
  connect();
  area_batch what(line_bytes);
  aim(what);
  what.batch.deadline = rig->now;
  EXPECT_TRUE(rig->plane().read_now(what.batch, rig->now, 1s));
  EXPECT_TRUE(what.all(page_status::timed_out));
  EXPECT_EQ(rig->plane().stats().connections_closed, 0u);
}

TEST_F(verbs_now, callers_and_the_planes_thread_take_turns) {
  connect();
  data_plane_loop_options options;
  options.callers = callers_run::polling;
  data_plane_loop loop(rig->plane(), options);
  std::atomic<bool> stop{false};
  std::thread runner([&] { loop.run(stop); });
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0}, running{4};
  for (int caller = 0; caller < 4; ++caller)
    callers.emplace_back([&, caller] {
      area_batch mine(line_bytes);
      for (int i = 0; i < 2000; ++i) {
        aim(mine);
        mine.batch.deadline = clock::now() + 60s;
        (i + caller) % 3 == 0 ? loop.submit(mine.batch) : loop.read_now(mine.batch);
        mine.batch.wait();
        bool right = mine.all(page_status::hit);
        for (std::size_t at = 0; right && at < 20; ++at)
          right = mine.holds(at, &area[at * 4096]);
        wrong += right ? 0 : 1;
      }
      --running;
    });
  while (running > 0)
    rig->serve_turn();
  for (auto& caller : callers)
    caller.join();
  stop = true;
  loop.wake();
  runner.join();
  rig->plane().adopt();
  EXPECT_EQ(wrong, 0);
}

} // namespace
} // namespace peercache::rdma::verbs_now_test
