#include "tests/rdma/verbs/fake_rig.hpp"

#include <gmock/gmock.h>
#include <poll.h>
#include <set>
#include <thread>

/// Tests of the times and the order in which the fake provider carries out work.
namespace peercache::rdma::verbs::fake_verbs_order_test {
namespace {

using namespace peercache::tests;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using done = fake_rig::completion;

constexpr unsigned fenced = IBV_SEND_FENCE | IBV_SEND_SIGNALED;

TEST(fake_order, work_waits_for_its_time) {
  fake_rig rig;
  rig.fabric.set_delay(milliseconds(5), milliseconds(5));
  rig.post({{.wr_id = 1}});
  rig.fabric.advance(milliseconds(4));
  EXPECT_THAT(rig.completions(), IsEmpty());
  EXPECT_FALSE(rig.arrived(0, 64));
  EXPECT_EQ(rig.fabric.waiting(), 1U);
  rig.fabric.advance(milliseconds(1));
  EXPECT_THAT(rig.completions(), ElementsAre(done{1, IBV_WC_SUCCESS}));
  EXPECT_TRUE(rig.arrived(0, 64));
  EXPECT_EQ(rig.fabric.now(), milliseconds(5));
}

TEST(fake_order, what_is_held_goes_step_by_step) {
  fake_rig rig;
  rig.fabric.hold();
  rig.post({{.wr_id = 1}, {.wr_id = 2}, {.wr_id = 3}});
  EXPECT_THAT(rig.completions(), IsEmpty());
  EXPECT_EQ(rig.fabric.step(), 1U);
  EXPECT_THAT(rig.completions(), ElementsAre(done{1, IBV_WC_SUCCESS}));
  rig.fabric.advance(std::chrono::hours(1));
  EXPECT_THAT(rig.completions(), IsEmpty());
  EXPECT_EQ(rig.fabric.step(5), 2U);
  EXPECT_EQ(rig.completions().size(), 2U);
  rig.fabric.release();
  rig.post({{.wr_id = 4}});
  EXPECT_THAT(rig.completions(), ElementsAre(done{4, IBV_WC_SUCCESS}));
}

/// Posts 8 READs without flags and a ninth with `last_flags`. Returns the order in which the fabric
/// carries them out.
std::vector<std::uint64_t> order_of(std::uint64_t seed, unsigned last_flags) {
  fake_rig rig(seed);
  rig.fabric.set_reorder(true);
  std::vector<std::uint64_t> order;
  rig.fabric.before_each([&](const fake_work& work) { order.push_back(work.wr_id); });
  std::vector<fake_rig::request> requests(9, {.flags = 0});
  for (std::size_t index = 0; index < requests.size(); ++index)
    requests[index].wr_id = index;
  requests[8].flags = last_flags;
  rig.post(requests);
  EXPECT_THAT(rig.completions(), ElementsAre(done{8, IBV_WC_SUCCESS}));
  return order;
}

TEST(fake_order, only_a_fence_keeps_the_last_read_behind_the_others) {
  bool overtook = false;
  std::set<std::vector<std::uint64_t>> orders;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    EXPECT_EQ(order_of(seed, fenced).back(), 8U) << seed;
    const auto order = order_of(seed, IBV_SEND_SIGNALED);
    overtook = overtook || order.back() != 8;
    orders.insert(order);
  }
  EXPECT_TRUE(overtook);
  EXPECT_GT(orders.size(), 10U);
}

TEST(fake_order, the_same_seed_gives_the_same_run) {
  EXPECT_EQ(order_of(3, fenced), order_of(3, fenced));
}

TEST(fake_order, what_was_posted_after_a_fence_waits_behind_it_too) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    fake_rig rig(seed);
    rig.fabric.set_reorder(true);
    std::vector<std::uint64_t> order;
    rig.fabric.before_each([&](const fake_work& work) { order.push_back(work.wr_id); });
    rig.post({{.wr_id = 1}, {.wr_id = 1}, {.wr_id = 2, .flags = fenced}, {.wr_id = 3}});
    ASSERT_EQ(order.size(), 4U);
    EXPECT_THAT(std::vector(order.begin(), order.begin() + 2), ElementsAre(1, 1)) << seed;
  }
}

TEST(fake_order, completions_come_in_the_order_of_posting_all_the_same) {
  fake_rig rig(5);
  rig.fabric.set_reorder(true);
  rig.fabric.set_delay(nanoseconds(0), milliseconds(10));
  rig.post({{.wr_id = 1}, {.wr_id = 2}, {.wr_id = 3}, {.wr_id = 4}});
  rig.fabric.advance(milliseconds(10));
  EXPECT_THAT(rig.completions(), ElementsAre(done{1, IBV_WC_SUCCESS}, done{2, IBV_WC_SUCCESS},
                                             done{3, IBV_WC_SUCCESS}, done{4, IBV_WC_SUCCESS}));
}

TEST(fake_order, the_owner_can_overwrite_between_a_payload_and_its_validation) {
  fake_rig rig;
  const std::byte before = rig.there[0], after = std::byte(~unsigned(before));
  rig.fabric.before_each([&](const fake_work& work) {
    if (work.fenced)
      rig.there[0] = rig.there[100] = after;
  });
  rig.post({{.length = 64, .flags = 0}, {.offset = 100, .length = 64, .flags = fenced}});
  EXPECT_EQ(rig.completions().size(), 1U);
  EXPECT_EQ(rig.here[0], before);
  EXPECT_EQ(rig.here[100], after);
}

TEST(fake_order, the_owner_can_overwrite_in_the_middle_of_a_read) {
  fake_rig rig;
  const buffer old = rig.there;
  rig.fabric.in_the_middle([&](const fake_work& work) {
    EXPECT_EQ(work.bytes, 1000U);
    std::fill(rig.there.begin(), rig.there.end(), std::byte{1});
  });
  EXPECT_EQ(rig.status_of({.length = 1000}), IBV_WC_SUCCESS);
  EXPECT_TRUE(std::equal(rig.here.begin(), rig.here.begin() + 500, old.begin()));
  EXPECT_EQ(rig.here[500], std::byte{1});
}

TEST(fake_order, a_queue_pair_that_ends_in_a_hook_moves_no_further_byte) {
  fake_rig rig;
  rig.fabric.in_the_middle([&](const fake_work&) { rig.pair->reader.pair.reset(); });
  rig.post({{.length = 1000}});
  EXPECT_TRUE(rig.arrived(0, 500));
  EXPECT_EQ(rig.here[500], std::byte{});
  EXPECT_THAT(rig.completions(), IsEmpty());
}

TEST(fake_order, completions_of_a_destroyed_queue_pair_stay_or_go_as_the_test_says) {
  for (const bool keep : {true, false}) {
    fake_rig rig;
    rig.fabric.keep_completions_of_destroyed(keep);
    rig.post({{.wr_id = 1}});
    rig.pair->reader.pair.reset();
    EXPECT_EQ(rig.completions().size(), keep ? 1U : 0U);
  }
}

TEST(fake_order, a_completion_queue_that_is_too_small_overruns) {
  fake_rig rig;
  for (std::size_t round = 0; round < 2; ++round)
    for (std::size_t index = 0; index < rail_end::send_depth; ++index)
      rig.post({{.wr_id = index}});
  // Only the completion queue is too small, not the send queue.
  EXPECT_THAT(rig.fabric.misuse(), IsEmpty());
  auto second = must(
      queue_pair::create(*rig.reader, rig.pair->reader.completions, queue_pair_use::reader, 4, 1));
  auto other_end = must(
      queue_pair::create(*rig.server, rig.pair->server.completions, queue_pair_use::server, 4, 1));
  must(second.connect(
      {.remote_queue_pair = other_end.number(), .remote_gid = rig.server->port().gid}, {}));
  must(other_end.connect(
      {.remote_queue_pair = second.number(), .remote_gid = rig.reader->port().gid}, {}));
  ibv_sge piece{rig.target.address(), 8, rig.target.local_key()};
  ibv_send_wr one{.sg_list = &piece, .num_sge = 1, .opcode = IBV_WR_RDMA_READ};
  one.send_flags = IBV_SEND_SIGNALED;
  one.wr.rdma = {rig.pool.address(), rig.pool.remote_key()};
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(second.post(&one, &bad), 0);
  EXPECT_THAT(rig.fabric.misuse(), ElementsAre(HasSubstr("overran")));
  EXPECT_EQ(rig.reader->next_event().name, "completion queue overrun");
}

TEST(fake_order, a_broken_device_flushes_and_takes_nothing_more) {
  fake_rig rig;
  rig.fabric.set_delay(milliseconds(5), milliseconds(5));
  rig.post({{.wr_id = 1}});
  rig.fabric.break_device("fake0");
  EXPECT_THAT(rig.completions(), ElementsAre(done{1, IBV_WC_WR_FLUSH_ERR}));
  EXPECT_EQ(rig.post({{.wr_id = 2}}).first, EIO);
  EXPECT_FALSE(completion_queue::create(*rig.reader, 4, nullptr));
  EXPECT_FALSE(memory_region::register_memory(*rig.reader, rig.here, region_use::local_write));
  rig.fabric.advance(milliseconds(5));
  EXPECT_FALSE(rig.arrived(0, 64));
}

TEST(fake_order, counts_what_was_posted_and_polled) {
  fake_rig rig;
  rig.post({{.length = 100, .flags = 0}, {.length = 64, .flags = fenced}});
  rig.post({{.length = 10}});
  EXPECT_EQ(rig.completions().size(), 2U);
  const fake_counts counts = rig.fabric.counts("fake0");
  EXPECT_EQ(counts.doorbells, 2U);
  EXPECT_EQ(counts.work_requests, 3U);
  EXPECT_EQ(counts.reads, 3U);
  EXPECT_EQ(counts.read_bytes, 174U);
  EXPECT_EQ(counts.fenced, 1U);
  EXPECT_EQ(counts.signaled, 2U);
  EXPECT_EQ(counts.polled, 2U);
  EXPECT_EQ(counts.registrations, 1U);
  EXPECT_EQ(rig.fabric.counts("fake1").served_bytes, 174U);
}

TEST(fake_order, who_sleeps_in_another_thread_is_woken_by_the_clock) {
  fake_rig rig;
  auto channel = must(completion_channel::create(*rig.reader));
  rig.pair.reset();
  rig.pair.emplace(*rig.reader, *rig.server, path_options{}, &channel);
  rig.fabric.set_delay(milliseconds(5), milliseconds(5));
  EXPECT_TRUE(rig.pair->reader.completions.arm());
  rig.post({{.wr_id = 1}});
  std::thread mover([&] { rig.fabric.advance(milliseconds(5)); });
  pollfd sleeper{channel.fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&sleeper, 1, 60'000), 1);
  mover.join();
  channel.drain();
  EXPECT_THAT(rig.completions(), ElementsAre(done{1, IBV_WC_SUCCESS}));
  rig.pair.reset();
}

TEST(fake_order, simulated_rails_keep_their_rate_and_move_no_byte) {
  fake_rig rig;
  rig.fabric.simulate_rails(1e9, nanoseconds(0));
  const auto begin = std::chrono::steady_clock::now();
  std::vector<fake_rig::request> requests(60, {.length = 50'000, .flags = 0});
  requests.back().flags = IBV_SEND_SIGNALED;
  rig.post(requests);
  while (rig.completions().empty())
    ASSERT_LT(std::chrono::steady_clock::now() - begin, std::chrono::minutes(1));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(3)); // 3 MB at 1 GB/s take 3 ms.
  EXPECT_EQ(rig.here, buffer(fake_rig::bytes));
}

} // namespace
} // namespace peercache::rdma::verbs::fake_verbs_order_test
