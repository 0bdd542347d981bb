// Tests, over every data plane, of batches that are cancelled or end early, and of which waiters
// are woken by the end of a batch.

#include "tests/rdma/data_plane_conformance.hpp"

namespace peercache::rdma::data_plane_cancel_test {
namespace {

class data_plane_cancel : public data_plane_conformance {};

INSTANTIATE_TEST_SUITE_P(over, data_plane_cancel, all_planes(), plane_version::name_of);

TEST_P(data_plane_cancel, a_batch_can_be_cancelled_in_any_state_and_no_byte_comes_later) {
  serve();
  for (int i = 0; i < 8; ++i)
    pool.put(300'000);
  for (const int steps : {0, 1, 2, 3, 4, 5, 6, 8, 10, 13, 21, 34}) {
    test_batch what;
    test_batch other;
    for (std::uint32_t slot = 0; slot < 8; ++slot)
      (slot < 6 ? what : other).add(pool, slot);
    what.lay_out();
    other.lay_out();
    rig->submit(what, first_life);
    rig->submit(other, first_life);
    rig->steps(steps);
    const bool was_complete = what.batch.complete();
    rig->plane().cancel(what.batch);
    ASSERT_TRUE(what.batch.complete()) << steps;
    const auto returned = what.memory;
    for (std::size_t i = 0; i < what.batch.pages.size(); ++i) {
      const auto status = what.batch.pages[i].status;
      ASSERT_TRUE(status == page_status::hit || (status == page_status::closed && !was_complete));
      ASSERT_TRUE(status != page_status::hit || what.holds(pool, i)) << steps;
    }
    rig->finish(other);
    expect_hits(other);
    rig->steps(100);
    ASSERT_EQ(what.memory, returned) << "bytes came after the batch was given back";
  }
}

TEST_P(data_plane_cancel, a_batch_that_waits_for_its_turn_can_be_cancelled) {
  serve(fault::silent);
  std::vector<std::unique_ptr<test_batch>> many;
  for (std::uint32_t i = 0; i < 2 * limits::channels_per_peer_max; ++i)
    many.push_back(std::make_unique<test_batch>(pool, 2, 5000));
  for (auto& each : many)
    rig->submit(*each, first_life);
  rig->steps(5);
  for (auto each = many.rbegin(); each != many.rend(); ++each) {
    rig->plane().cancel((*each)->batch);
    EXPECT_TRUE((*each)->batch.complete() && (*each)->all(page_status::closed));
  }
  EXPECT_EQ(rig->plane().stats().by_status[static_cast<std::size_t>(page_status::closed)],
            2 * many.size());
}

/// Callers with less time than connecting takes would never reach the peer otherwise.
TEST_P(data_plane_cancel, a_connection_that_is_being_made_serves_the_next_batch) {
  serve();
  auto cancelled = batch_of(2, 5000);
  rig->submit(cancelled, first_life);
  rig->steps(1);
  rig->plane().cancel(cancelled.batch);
  EXPECT_TRUE(cancelled.all(page_status::closed));
  auto late = batch_of(2, 5000);
  rig->submit(late, first_life, std::chrono::milliseconds(1));
  rig->pass(std::chrono::milliseconds(2));
  rig->finish(late);
  auto what = batch_of(2, 5000);
  rig->read(what, first_life);
  expect_hits(what);
  EXPECT_LE(rig->plane().stats().connects, 1u);
}

/// The breaker lets one batch at a time out to a peer that has failed.
TEST_P(data_plane_cancel, a_probe_that_shows_nothing_makes_room_for_the_next) {
  for (int i = 0; i < 3; ++i) {
    auto what = batch_of(2, 5000);
    rig->read(what, first_life);
  }
  ASSERT_EQ(rig->plane().stats().breaker_opened, 1u);
  rig->pass(std::chrono::milliseconds(600));
  auto failed = batch_of(2, 5000);
  rig->read(failed, first_life);
  ASSERT_TRUE(failed.all(page_status::unreachable)) << "the next pause takes 1 s";

  serve();
  rig->pass(std::chrono::milliseconds(1100));
  auto cancelled = batch_of(2, 5000);
  rig->submit(cancelled, first_life);
  rig->steps(1);
  rig->plane().cancel(cancelled.batch);
  ASSERT_TRUE(cancelled.all(page_status::closed));
  rig->pass(std::chrono::milliseconds(600));
  auto bad = batch_of(1, 5000);
  bad.batch.parts[0].bytes -= 1;
  rig->read(bad, first_life);
  ASSERT_TRUE(bad.all(page_status::bad_size)) << "the cancelled one costs the shortest pause";
  auto what = batch_of(2, 5000);
  rig->read(what, first_life);
  expect_hits(what);
}

TEST_P(data_plane_cancel, a_cancel_of_a_batch_that_is_gone_does_nothing) {
  serve();
  auto what = batch_of(2, 5000);
  rig->read(what, first_life);
  rig->plane().cancel(what.batch);
  expect_hits(what);
  EXPECT_EQ(rig->plane().stats().batches, 1u);
}

TEST_P(data_plane_cancel, a_listener_is_told_of_each_batch_once) {
  struct counter final : batch_listener {
    void on_complete() noexcept override { ++calls; }
    int calls = 0;
  } told;
  serve();
  auto right = batch_of(3, 5000);
  auto cancelled = batch_of(3, 5000);
  right.batch.listener = cancelled.batch.listener = &told;
  rig->submit(right, first_life);
  rig->submit(cancelled, first_life);
  EXPECT_EQ(told.calls, 0);
  rig->plane().cancel(cancelled.batch);
  EXPECT_EQ(told.calls, 1);
  rig->finish(right);
  EXPECT_EQ(told.calls, 2);
}

} // namespace
} // namespace peercache::rdma::data_plane_cancel_test
