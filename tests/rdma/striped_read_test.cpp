#include "rdma/striped_read.hpp"

#include "common/interruption.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <thread>
#include <utility>

namespace peercache::rdma::striped_read_test {
namespace {

/// Tests with lanes whose batches complete at once, with statuses that the test sets.
class striped_read_test : public testing::Test {
protected:
  read_lane& add(read_lane::kind how, std::int32_t numa_node = -1) {
    auto lane = std::make_unique<read_lane>();
    lane->how = how;
    lane->numa_node = numa_node;
    lane->usable = &usable.emplace_back(true);
    const auto index = lanes.size();
    pages_on.push_back(0);
    verified_on.push_back(0);
    judged_on.push_back(0);
    lane->submit = [this, index](read_batch& batch) {
      pages_on[index] += batch.pages.size();
      judged_on[index] += batch.judged ? 1 : 0;
      verified_on[index] += std::count_if(batch.pages.begin(), batch.pages.end(),
                                          [](const auto& page) { return page.verify; });
      batch.fail(answers[index]);
    };
    answers.push_back(page_status::hit);
    lanes.push_back(std::move(lane));
    return *lanes.back();
  }

  void batch_of(std::uint32_t pages, std::uint32_t bytes) {
    memory.resize(std::size_t{pages} * bytes);
    whole.pages.clear();
    whole.parts.clear();
    for (std::uint32_t i = 0; i < pages; ++i) {
      page_read page;
      page.length_bytes = bytes;
      page.first_part = i;
      page.part_count = 1;
      page.checksum = 1;
      page.verify = false;
      whole.pages.push_back(page);
      whole.parts.push_back({memory.data() + std::size_t{i} * bytes, bytes});
    }
    whole.peer.rails = 2;
    whole.deadline = clock::now() + std::chrono::hours(1);
  }

  void read(std::int32_t numa_node = -1) {
    striped_read reading(lanes, whole, numa_node);
    reading.start();
    reading.finish();
  }

  bool all(page_status status) const {
    return std::all_of(whole.pages.begin(), whole.pages.end(),
                       [&](const auto& page) { return page.status == status; });
  }

  std::deque<std::atomic<bool>> usable;
  std::vector<std::unique_ptr<read_lane>> lanes;
  std::vector<std::size_t> pages_on;
  std::vector<std::ptrdiff_t> verified_on;
  std::vector<std::size_t> judged_on; ///< Batches of each lane that the plane judges.
  std::vector<page_status> answers;
  std::vector<std::byte> memory;
  read_batch whole;
};

TEST_F(striped_read_test, what_the_caller_judges_goes_over_rails_only) {
  add(read_lane::kind::tcp);
  batch_of(3, 64);
  whole.judged = false;
  read();
  EXPECT_TRUE(all(page_status::unreachable));
  add(read_lane::kind::rail);
  read();
  EXPECT_TRUE(all(page_status::hit));
  EXPECT_EQ(judged_on, (std::vector<std::size_t>{0, 0}));
  answers[1] = page_status::unreachable;
  read();
  EXPECT_TRUE(all(page_status::unreachable));
  EXPECT_EQ(pages_on, (std::vector<std::size_t>{0, 6}));
}

/// Reads once as a caller that waits for nothing else, with lanes that offer `read_now`, and
/// returns how many batches came that way.
std::size_t read_alone(std::vector<std::unique_ptr<read_lane>>& lanes, read_batch& whole) {
  std::size_t now = 0;
  for (auto& lane : lanes)
    lane->read_now = [&, lane = lane.get()](read_batch& batch) {
      ++now;
      lane->submit(batch);
    };
  striped_read reading(lanes, whole, -1);
  reading.start_alone();
  reading.finish();
  return now;
}

TEST_F(striped_read_test, a_caller_works_itself_on_one_short_batch) {
  add(read_lane::kind::rail);
  batch_of(4, 1u << 20);
  EXPECT_EQ(read_alone(lanes, whole), 1u);
  EXPECT_TRUE(all(page_status::hit));
  batch_of(4, (1u << 20) + 1);
  EXPECT_EQ(read_alone(lanes, whole), 0u) << "four bytes more than a caller works on";
  EXPECT_TRUE(all(page_status::hit));
}

TEST_F(striped_read_test, a_caller_leaves_several_batches_to_their_lanes) {
  add(read_lane::kind::rail);
  add(read_lane::kind::rail);
  batch_of(2, 256u << 10);
  EXPECT_EQ(read_alone(lanes, whole), 0u);
  EXPECT_EQ(pages_on, (std::vector<std::size_t>{1, 1}));
}

TEST_F(striped_read_test, large_batches_use_all_rails_evenly) {
  add(read_lane::kind::rail);
  add(read_lane::kind::rail);
  add(read_lane::kind::tcp);
  batch_of(64, 128u << 10);
  read();
  EXPECT_TRUE(all(page_status::hit));
  EXPECT_EQ(pages_on, (std::vector<std::size_t>{32, 32, 0}));
}

TEST_F(striped_read_test, a_small_batch_stays_on_one_rail) {
  add(read_lane::kind::rail);
  add(read_lane::kind::rail);
  batch_of(16, 4096);
  read();
  EXPECT_EQ(pages_on, (std::vector<std::size_t>{16, 0}));
}

TEST_F(striped_read_test, the_rail_with_fewer_bytes_outstanding_is_taken) {
  add(read_lane::kind::rail).outstanding_bytes = 1 << 20;
  add(read_lane::kind::rail);
  batch_of(1, 4096);
  read();
  EXPECT_EQ(pages_on, (std::vector<std::size_t>{0, 1}));
}

TEST_F(striped_read_test, among_equals_the_rail_of_the_callers_numa_node_is_taken) {
  add(read_lane::kind::rail, 0);
  add(read_lane::kind::rail, 1);
  batch_of(1, 4096);
  read(1);
  EXPECT_EQ(pages_on, (std::vector<std::size_t>{0, 1}));
}

TEST_F(striped_read_test, what_a_failed_rail_could_not_read_moves_to_the_others) {
  add(read_lane::kind::rail);
  add(read_lane::kind::rail);
  answers[0] = page_status::unreachable;
  batch_of(64, 128u << 10);
  read();
  EXPECT_TRUE(all(page_status::hit));
  EXPECT_EQ(pages_on, (std::vector<std::size_t>{32, 64}));
}

TEST_F(striped_read_test, with_no_rail_left_tcp_carries_and_verifies) {
  add(read_lane::kind::rail);
  add(read_lane::kind::tcp);
  answers[0] = page_status::breaker_open;
  batch_of(8, 4096);
  read();
  EXPECT_TRUE(all(page_status::hit));
  EXPECT_EQ(pages_on, (std::vector<std::size_t>{8, 8}));
  EXPECT_EQ(verified_on, (std::vector<std::ptrdiff_t>{0, 8}));
}

TEST_F(striped_read_test, a_rail_that_is_down_is_left_out) {
  add(read_lane::kind::rail);
  add(read_lane::kind::rail);
  usable[0] = false;
  batch_of(8, 128u << 10);
  read();
  EXPECT_EQ(pages_on, (std::vector<std::size_t>{0, 8}));
}

TEST_F(striped_read_test, a_peer_without_rails_is_read_over_tcp) {
  add(read_lane::kind::rail);
  add(read_lane::kind::tcp);
  batch_of(8, 4096);
  whole.peer.rails = 0;
  read();
  EXPECT_EQ(pages_on, (std::vector<std::size_t>{0, 8}));
}

TEST_F(striped_read_test, a_miss_of_one_rail_is_not_asked_of_another) {
  add(read_lane::kind::rail);
  add(read_lane::kind::rail);
  answers[0] = page_status::stale;
  batch_of(1, 4096);
  read();
  EXPECT_TRUE(all(page_status::stale));
  EXPECT_EQ(pages_on, (std::vector<std::size_t>{1, 0}));
}

TEST_F(striped_read_test, without_any_lane_the_pages_are_unreachable) {
  batch_of(3, 4096);
  read();
  EXPECT_TRUE(all(page_status::unreachable));
}

TEST_F(striped_read_test, nothing_stays_outstanding) {
  auto& rail = add(read_lane::kind::rail);
  batch_of(64, 128u << 10);
  read();
  EXPECT_EQ(rail.outstanding_bytes, 0u);
}

TEST_F(striped_read_test, memory_under_a_lease_is_verified_on_no_lane) {
  add(read_lane::kind::tcp);
  batch_of(4, 4096);
  whole.peer.service = data_service::handoff;
  read();
  EXPECT_EQ(verified_on[0], 0);
}

/// Tests with a lane whose batches complete when the test lets them.
class held_lane : public striped_read_test {
protected:
  read_lane& add_held() {
    auto& lane = add(read_lane::kind::rail);
    lane.submit = [this](read_batch& batch) { held.push_back(&batch); };
    lane.cancel = [this](const read_batch& batch) {
      const auto found = std::find(held.begin(), held.end(), &batch);
      ASSERT_NE(found, held.end());
      (*found)->fail(page_status::closed);
      held.erase(found);
    };
    return lane;
  }
  void complete_all(page_status status) {
    for (auto* batch : std::exchange(held, {}))
      batch->fail(status);
  }

  std::vector<read_batch*> held;
};

TEST_F(held_lane, a_read_can_be_followed_without_blocking) {
  struct counter final : batch_listener {
    void on_complete() noexcept override { ++calls; }
    int calls = 0;
  } told;
  add_held();
  add(read_lane::kind::tcp);
  batch_of(4, 4096);
  whole.listener = &told;
  striped_read reading(lanes, whole, -1);
  reading.start();
  EXPECT_FALSE(reading.advance());
  complete_all(page_status::unreachable);
  EXPECT_EQ(told.calls, 1);
  EXPECT_FALSE(reading.advance()) << "the other lane is tried";
  EXPECT_EQ(told.calls, 2);
  EXPECT_TRUE(reading.advance());
  EXPECT_TRUE(all(page_status::hit));
  EXPECT_TRUE(reading.advance()) << "nothing is left";
}

TEST_F(held_lane, a_cancelled_read_is_closed_and_tries_no_other_lane) {
  add_held();
  add(read_lane::kind::tcp);
  batch_of(4, 4096);
  striped_read reading(lanes, whole, -1);
  reading.start();
  reading.cancel();
  EXPECT_TRUE(held.empty());
  reading.finish();
  EXPECT_TRUE(all(page_status::closed));
  EXPECT_EQ(lanes[0]->outstanding_bytes, 0u);

  striped_read lost(lanes, whole, -1);
  lost.start();
  auto* const on_its_way = held.at(0);
  lanes[0]->cancel = [&](const read_batch&) { on_its_way->fail(page_status::unreachable); };
  lost.cancel();
  lost.finish();
  EXPECT_TRUE(all(page_status::unreachable));
  EXPECT_EQ(pages_on[1], 0u);
}

TEST_F(striped_read_test, an_interruption_cancels_every_piece_and_waits_for_its_end) {
  std::deque<read_batch*> held;
  std::thread plane; // Plays a data plane that completes the cancelled pieces a while later.
  std::atomic<int> returned{0};
  for (int i = 0; i < 2; ++i) {
    auto& lane = add(read_lane::kind::rail);
    lane.submit = [&](read_batch& batch) { held.push_back(&batch); };
    lane.cancel = [&](const read_batch&) {
      if (!plane.joinable())
        plane = std::thread([&] {
          for (auto* batch : held) {
            ++returned;
            batch->fail(page_status::closed);
          }
        });
    };
  }
  batch_of(8, 128u << 10);
  const interruption signal{[] { return true; }};
  read();
  EXPECT_EQ(returned, 2);
  EXPECT_TRUE(all(page_status::closed));
  plane.join();
}

} // namespace
} // namespace peercache::rdma::striped_read_test
