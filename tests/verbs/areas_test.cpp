// Tests of areas beside a pool over Soft-RoCE devices: their bytes, who may READ them, and how long
// a look-up of two dependent rounds takes.

#include "tests/rdma/verbs/area_batch.hpp"
#include "tests/verbs/rail_pair.hpp"
#include "tests/verbs/reader_work.hpp"
#include "tests/verbs/whole_path.hpp"

namespace peercache::rdma::areas_test {
namespace {

using namespace std::chrono_literals;

constexpr incarnation life{1, 1};
constexpr auto patience = 60s;
constexpr std::uint32_t line_bytes = 64;

/// A node that serves a pool and an area, with memory windows or without, and a reader.
class areas : public testing::TestWithParam<bool> {
protected:
  areas() { node.add_area(area); }

  void read(area_batch& what) {
    what.from(reinterpret_cast<std::uint64_t>(area.data()));
    what.batch.peer = node.endpoint();
    what.batch.deadline = clock::now() + patience;
    rail.submit(what.batch);
    what.batch.wait();
  }
  /// READs this line until it is announced. Returns its last status.
  page_status read_when_told(area_batch& what) {
    const auto until = clock::now() + patience;
    do {
      what.batch.reset();
      read(what);
    } while (what.all(page_status::unreachable) && clock::now() < until);
    return what.batch.pages[0].status;
  }

  node_pool pool;
  std::vector<std::byte> memory = numbered_bytes(5u << 20, 1);
  const std::span<std::byte> area = std::span(memory).first(1u << 20);
  /// Memory behind the area, which is added later.
  const std::span<std::byte> more = std::span(memory).subspan(1u << 20);
  serving_node node{pool.memory.served(), life, {"rxe1"}, 0, GetParam()};
  reading_rail rail{"rxe0"};
};

TEST_P(areas, a_thousand_lines_arrive_right_and_no_thread_of_the_node_takes_part) {
  area_batch what(line_bytes);
  ASSERT_TRUE(rail.destinations().add(what.memory()));
  what.add(area.data());
  ASSERT_EQ(to_string(read_when_told(what)), "hit");
  what.clear();
  for (std::size_t i = 0; i < 1024; ++i)
    what.add(&area[(i * 7919 % 16384) * line_bytes]);
  const auto until = clock::now() + patience;
  while (node.stats().area_chunks == 0 && clock::now() < until)
    std::this_thread::yield();
  const auto turns = node.stats().turns;
  for (int i = 0; i < 16; ++i) {
    what.batch.reset();
    read(what);
  }
  EXPECT_TRUE(what.all(page_status::hit));
  for (std::size_t i = 0; i < 1024; ++i)
    ASSERT_TRUE(what.holds(i, &area[(i * 7919 % 16384) * line_bytes])) << i;
  // The statistics may be of a moment before the connection was complete.
  EXPECT_LT(node.stats().turns, turns + 16) << "16 thousand READs";
  EXPECT_EQ(rail.counters().entry_reads + rail.counters().fences + rail.counters().payload_reads,
            0u);
  EXPECT_EQ(rail.counters().bounced_bytes, 0u);
  rail.destinations().remove(what.memory().data());
}

TEST_P(areas, memory_that_comes_later_is_seen_by_an_open_connection) {
  area_batch what(line_bytes);
  what.add(area.data());
  ASSERT_EQ(to_string(read_when_told(what)), "hit");
  what.clear();
  what.add(&more[line_bytes * 5]);
  read(what);
  EXPECT_TRUE(what.all(page_status::unreachable));
  node.add_area(more);
  EXPECT_EQ(to_string(read_when_told(what)), "hit");
  EXPECT_TRUE(what.holds(0, &more[line_bytes * 5]));
  EXPECT_EQ(rail.counters().channels, 1u);
}

TEST_P(areas, neither_the_pool_nor_an_area_answers_for_the_other) {
  test_batch pages(pool.pages, 1, 5000);
  pool.place(pages);
  area_batch what(line_bytes);
  what.add(pool.memory.page(pages.batch.pages[0].slot));
  what.add(area.data());
  read(what);
  EXPECT_EQ(what.batch.pages[0].status, page_status::unreachable);
  pages.batch.peer = node.endpoint();
  pages.batch.deadline = clock::now() + patience;
  pages.batch.pages[0].source =
      memory_rows::one_piece(reinterpret_cast<std::uint64_t>(area.data()), 5000);
  rail.submit(pages.batch);
  pages.batch.wait();
  EXPECT_TRUE(pages.all(page_status::bad_size));
}

INSTANTIATE_TEST_SUITE_P(rail, areas, testing::Bool(), [](const auto& info) {
  return info.param ? "with_windows" : "without_windows";
});

} // namespace
} // namespace peercache::rdma::areas_test
