// Tests of READs through the whole product, with all its threads, over Soft-RoCE devices.

#include "rdma/striped_read.hpp"
#include "tests/verbs/guest_network.hpp"
#include "tests/verbs/whole_path.hpp"

namespace peercache::rdma::whole_path_test {
namespace {

using namespace std::chrono_literals;

constexpr incarnation life{1, 1};
/// Time limit for an emulated device on a machine that may be busy.
constexpr auto patience = 60s;

class straight_reads : public testing::Test {
protected:
  explicit straight_reads(bool windows = false)
      : node(pool.memory.served(), life, {"rxe1"}, 0, windows) {}

  /// Reads a batch into registered memory, and expects that everything arrives.
  void read(test_batch& what) {
    pool.place(what);
    registered memory(what, {&rail});
    what.batch.peer = node.endpoint();
    what.batch.deadline = clock::now() + patience;
    rail.submit(what.batch);
    what.batch.wait();
    expect_all_hits(what, pool.pages);
  }

  node_pool pool;
  serving_node node;
  reading_rail rail{"rxe0"};
};

TEST_F(straight_reads, pages_of_1_byte_to_64_mib_arrive_in_1_to_32_parts_without_a_copy) {
  for (const std::uint32_t length_bytes : {1u, 4097u, 1u << 20, 9u << 20, 64u << 20}) {
    const auto slot = pool.pages.put(length_bytes);
    for (const std::uint32_t parts : {1u, 17u, 32u}) {
      if (length_bytes > (9u << 20) && parts != 32)
        // Soft-RoCE takes seconds for a page of this length, so it is read in 32 parts only.
        continue;
      SCOPED_TRACE(testing::Message() << length_bytes << " bytes in " << parts << " parts");
      test_batch what;
      what.add(pool.pages, slot, parts);
      what.lay_out();
      read(what);
    }
  }
  EXPECT_EQ(rail.counters().bounced_bytes, 0u);
}

TEST_F(straight_reads, a_batch_of_5000_pages_arrives_with_one_fence) {
  test_batch what(pool.pages, 5000, 700);
  read(what);
  EXPECT_EQ(rail.counters().fences, 1u);
  EXPECT_EQ(rail.counters().payload_reads, 5000u);
  EXPECT_LE(rail.counters().entry_reads, 5000u / 256 + 5) << "neighbours share a READ";
  EXPECT_EQ(rail.counters().bounced_bytes, 0u);
}

class straight_reads_through_windows : public straight_reads {
protected:
  straight_reads_through_windows() : straight_reads(true) {}
};

TEST_F(straight_reads_through_windows, pages_arrive_right_and_cost_the_same_reads) {
  test_batch small(pool.pages, 500, 700);
  read(small);
  test_batch large(pool.pages, 3, 5u << 20);
  read(large);
  EXPECT_EQ(rail.counters().fences, 2u);
  EXPECT_EQ(rail.counters().bounced_bytes, 0u);
}

/// Two rails of a reader: one over rxe0 and rxe1, the other over rxe2 and rxe3.
class two_rails : public testing::Test {
protected:
  two_rails() {
    lanes.push_back(first.lane());
    lanes.push_back(second.lane());
  }

  std::unique_ptr<test_batch> batch_of(std::uint32_t count, std::uint32_t length_bytes) {
    auto made = std::make_unique<test_batch>(pool.pages, count, length_bytes);
    pool.place(*made);
    made->batch.peer = node.endpoint();
    made->batch.deadline = clock::now() + patience;
    return made;
  }

  static std::uint64_t asked(const reading_rail& rail) { return rail.counters().payload_bytes; }

  node_pool pool;
  serving_node node{pool.memory.served(), life, {"rxe1", "rxe3"}};
  reading_rail first{"rxe0", 0};
  reading_rail second{"rxe2", 1};
  std::vector<std::unique_ptr<read_lane>> lanes;
};

TEST_F(two_rails, carry_one_batch_together) {
  auto what = batch_of(128, 64u << 10);
  registered memory(*what, {&first, &second});
  striped_read read(lanes, what->batch, -1);
  read.start();
  read.finish();
  expect_all_hits(*what, pool.pages);
  std::cout << "first rail: " << asked(first) << " bytes, second rail: " << asked(second) << "\n";
  EXPECT_EQ(asked(first), asked(second)) << "nothing else was outstanding";
  EXPECT_EQ(asked(first) + asked(second), 128u * (64u << 10));
}

TEST_F(two_rails, lose_no_page_with_one_of_them) {
  auto what = batch_of(256, 64u << 10);
  registered memory(*what, {&first, &second});
  {
    // Makes the link slow: the first rail's half of the batch takes some seconds, in the middle of
    // which the test cuts the link.
    slow_link slow(1, "rate 40mbit");
    striped_read read(lanes, what->batch, -1);
    read.start();
    while (asked(first) == 0 || asked(second) == 0)
      std::this_thread::yield();
    cut_link cut(1);
    read.finish();
    expect_all_hits(*what, pool.pages);
    // The kernel may report that the port is down up to a second after the queue pairs have failed.
    while (first.counters().usable && clock::now() < what->batch.deadline)
      std::this_thread::yield();
    EXPECT_FALSE(first.counters().usable);
    const auto moved = asked(second) / (64u << 10) - 128;
    EXPECT_GT(moved, 0u);
    EXPECT_EQ(first.counted(page_status::unreachable, moved), moved);
    std::cout << "moved to the second rail: " << moved << " pages\n";
  }
  const auto until = clock::now() + patience;
  while ((!first.counters().usable || !node.stats(0).serving) && clock::now() < until)
    std::this_thread::yield();
  const auto before = asked(first);
  auto next = batch_of(64, 64u << 10);
  striped_read again(lanes, next->batch, -1);
  again.start();
  again.finish();
  expect_all_hits(*next, pool.pages);
  EXPECT_GT(asked(first), before) << "the rail that came back carries pages again";
}

} // namespace
} // namespace peercache::rdma::whole_path_test
