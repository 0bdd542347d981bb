// Tests of what every data plane promises for memory under leases only. What a data plane promises
// for all pages is in data_plane_conformance_test.cpp.

#include "common/test_guards.hpp"
#include "tests/rdma/plane_rig.hpp"
#include "tests/rdma/verbs/verbs_rig.hpp"

#include <limits>

namespace peercache::rdma::data_plane_lease_test {
namespace {

constexpr incarnation life{1, 1};

struct version {
  const char* name;
  std::unique_ptr<plane_rig> (*make)(data_service);
  /// Length of a page whose read takes many steps, so that the page's lease can end in the middle.
  std::uint32_t long_page_bytes;
};

class data_plane_lease : public testing::TestWithParam<version> {
protected:
  data_plane_lease() : rig(GetParam().make(data_service::handoff)) {
    rig->serve(pool, life);
    for (int i = 0; i < 2; ++i)
      pool.put(GetParam().long_page_bytes);
    // Reads one page first, so that the connection exists.
    test_batch first(pool, 1, 100);
    rig->read(first, life);
    EXPECT_TRUE(first.all(page_status::hit));
  }

  void TearDown() override { rig->plane().shutdown(); }

  /// Reads two long pages, and takes their memory back after `steps` steps of the rig. Returns how
  /// many of the pages were hits with wrong bytes.
  int wrong_hits_when_taken_back_after(int steps) {
    test_batch what;
    for (const std::uint32_t slot : {0u, 1u})
      what.add(pool, slot);
    what.lay_out();
    for (auto& page : what.batch.pages)
      page.verify = false;
    rig->submit(what, life);
    rig->steps(steps);
    for (const std::uint32_t slot : {0u, 1u})
      rig->lent->take_back(slot);
    rig->finish(what);
    int wrong = 0;
    for (std::size_t i = 0; i < 2; ++i) {
      const auto status = what.batch.pages[i].status;
      EXPECT_TRUE(status == page_status::hit || status == page_status::stale) << to_string(status);
      wrong += status == page_status::hit && !what.holds(pool, i) ? 1 : 0;
      (status == page_status::hit ? hits : stale) += 1;
    }
    for (const std::uint32_t slot : {0u, 1u})
      rig->lent->lend_again(pool, slot);
    return wrong;
  }

  /// Takes the memory back at every stage of a read. Returns the number of hits with wrong bytes;
  /// stops when there are `at_most`.
  int wrong_hits(int at_most = std::numeric_limits<int>::max()) {
    test_batch whole;
    for (const std::uint32_t slot : {0u, 1u})
      whole.add(pool, slot);
    whole.lay_out();
    rig->submit(whole, life);
    int all_steps = 0;
    for (; !whole.batch.complete(); ++all_steps)
      rig->step();
    int wrong = 0;
    constexpr int rounds = 60;
    for (int round = 0; round < rounds && wrong < at_most; ++round)
      wrong += wrong_hits_when_taken_back_after(all_steps * round / rounds);
    return wrong;
  }

  test_pool pool;
  std::unique_ptr<plane_rig> rig;
  int hits = 0;
  int stale = 0;
};

INSTANTIATE_TEST_SUITE_P(over, data_plane_lease,
                         testing::Values(version{"memory", make_memory_rig, 30'000},
                                         version{"tcp", make_tcp_rig, 6u << 20},
                                         version{"verbs", make_verbs_rig, 9000}),
                         [](const auto& info) { return info.param.name; });

TEST_P(data_plane_lease, memory_that_was_taken_back_is_never_a_hit) {
  EXPECT_EQ(wrong_hits(), 0);
  EXPECT_GT(stale, 0);
}

TEST_P(data_plane_lease, without_the_look_behind_the_bytes_wrong_ones_would_be_hits) {
  const guard_switched_off off(guard::fence);
  EXPECT_GT(wrong_hits(1), 0);
}

TEST_P(data_plane_lease, without_the_generation_wrong_bytes_would_be_hits) {
  const guard_switched_off off(guard::generation);
  EXPECT_GT(wrong_hits(1), 0);
}

TEST_P(data_plane_lease, memory_that_is_not_served_is_not_read) {
  test_batch what(pool, 3, 5000);
  rig->place(what);
  const auto memory = rig->lent->memory();
  const auto end = reinterpret_cast<std::uint64_t>(memory.data() + memory.size());
  what.batch.peer = rig->peer(life);
  what.batch.deadline = rig->now + std::chrono::seconds(5);
  what.batch.pages[0].source.address = end;
  what.batch.pages[1].source = memory_rows::one_piece(end - 100, 5000);
  rig->plane().submit(what.batch);
  rig->finish(what);
  for (const std::size_t i : {0u, 1u}) {
    const auto status = what.batch.pages[i].status;
    EXPECT_TRUE(status == page_status::refused || status == page_status::unreachable) << i;
  }
  EXPECT_EQ(what.batch.pages[2].status, page_status::hit);
  EXPECT_TRUE(what.holds(pool, 2));
  EXPECT_TRUE(what.guards_untouched());
}

TEST_P(data_plane_lease, sources_that_cannot_be_are_bad_and_never_asked_for) {
  test_batch what(pool, 9, 600);
  rig->place(what);
  what.batch.peer = rig->peer(life);
  what.batch.deadline = rig->now + std::chrono::seconds(5);
  const auto source = [&](std::size_t page) -> memory_rows& {
    return what.batch.pages[page].source;
  };
  for (std::size_t i = 0; i < 8; ++i)
    source(i) = {1u << 20, 200, 6, 100};
  source(0).rows = 0;
  source(1).rows = 5;
  source(2).row_bytes = 0;
  source(3).stride_bytes = 99;
  source(4).stride_bytes = ~std::uint64_t{0} / 3;
  source(5).address = 0;
  source(6).address = ~std::uint64_t{0} - 1000;
  source(7) = {1u << 20, 2, limits::rows_per_page_max + 1, 1};
  rig->plane().submit(what.batch);
  rig->finish(what);
  for (std::size_t i = 0; i < 8; ++i)
    EXPECT_EQ(what.batch.pages[i].status, page_status::bad_size) << i;
  EXPECT_EQ(what.batch.pages[8].status, page_status::hit);
}

TEST_P(data_plane_lease, a_page_of_a_pool_is_not_read_from_a_server_of_leases) {
  test_batch what(pool, 2, 5000);
  what.batch.peer = rig->peer({2, 2});
  what.batch.peer.service = data_service::pool;
  what.batch.deadline = rig->now + std::chrono::seconds(5);
  rig->serve(pool, {2, 2});
  const auto before = what.memory;
  rig->plane().submit(what.batch);
  rig->finish(what);
  EXPECT_TRUE(what.all(page_status::unreachable));
  EXPECT_EQ(what.memory, before);
}

TEST_P(data_plane_lease, an_incarnation_serves_one_service) {
  test_batch what(pool, 2, 5000);
  what.batch.peer = rig->peer(life);
  what.batch.peer.service = data_service::pool;
  what.batch.deadline = rig->now + std::chrono::seconds(5);
  rig->plane().submit(what.batch);
  rig->finish(what);
  EXPECT_TRUE(what.all(page_status::refused) || what.all(page_status::unreachable));
}

TEST_P(data_plane_lease, pages_may_share_a_lease) {
  test_batch what(pool, 50, 5000);
  rig->place(what);
  for (auto& page : what.batch.pages) {
    page.slot = what.batch.pages[0].slot;
    page.gen = what.batch.pages[0].gen;
    page.key = what.batch.pages[0].key;
  }
  what.batch.peer = rig->peer(life);
  what.batch.deadline = rig->now + std::chrono::seconds(5);
  rig->plane().submit(what.batch);
  rig->finish(what);
  for (std::size_t i = 0; i < what.batch.pages.size(); ++i) {
    ASSERT_EQ(what.batch.pages[i].status, page_status::hit) << i;
    ASSERT_TRUE(what.holds(pool, i)) << i;
  }
}

} // namespace
} // namespace peercache::rdma::data_plane_lease_test
