// Tests of how memory under leases is READ: which rows share one READ, which gaps are dropped, and
// spans that come and go.

#include "tests/rdma/verbs/verbs_rig.hpp"
#include "tests/support/fake_verbs/fake_verbs.hpp"

#include <cstring>

namespace peercache::rdma::verbs_rows_test {
namespace {

using namespace std::chrono_literals;

constexpr incarnation life{1, 1};

/// Tests with a reader and a server of memory under leases, on a fabric that the test controls.
class verbs_rows_test : public testing::Test {
protected:
  verbs_rows_test() {
    fabric.add(tests::roce_device("fake0", 1));
    fabric.add(tests::roce_device("fake1", 2));
    rig.emplace(verbs_rig_devices{"fake0", "fake1",
                                  [this](plane_rig& one) {
                                    one.now += 10us;
                                    fabric.advance(10us);
                                  }},
                verbs_data_plane_options{}, data_service::handoff);
    rig->serve(pool, life);
  }

  void TearDown() override {
    rig->plane().shutdown();
    rig.reset();
    EXPECT_TRUE(fabric.objects().none());
    EXPECT_EQ(fabric.misuse(), std::vector<std::string>{});
  }

  /// Lays a new page out in rows of this shape, in memory of its own. Returns a batch of only this
  /// page.
  std::unique_ptr<test_batch> batch_in(memory_rows rows, std::uint32_t parts = 1) {
    auto what = std::make_unique<test_batch>();
    const auto slot = pool.put(std::size_t{rows.rows} * rows.row_bytes);
    what->add(pool, slot, parts);
    what->lay_out();
    rig->place(*what);
    auto* to = rig->lent->memory().data() + (64u << 20);
    rows.address = reinterpret_cast<std::uint64_t>(to);
    std::memset(to, static_cast<int>(lent_memory::between), rows.extent_bytes());
    for (std::uint32_t row = 0; row < rows.rows; ++row)
      std::memcpy(to + row * rows.stride_bytes,
                  &pool.slots[slot].bytes[std::size_t{row} * rows.row_bytes], rows.row_bytes);
    what->batch.pages[0].source = rows;
    EXPECT_TRUE(rig->rail->destinations->add(what->memory));
    return what;
  }

  /// Reads the batch from the memory that its pages name.
  void read(test_batch& what) {
    what.batch.peer = rig->peer(life);
    what.batch.deadline = rig->now + 5s;
    rig->plane().submit(what.batch);
    rig->finish(what);
  }

  void expect_hit_in_reads(memory_rows rows, std::uint64_t reads, std::uint32_t parts = 1) {
    const auto what = batch_in(rows, parts);
    read(*what);
    EXPECT_EQ(to_string(what->batch.pages[0].status), "hit");
    EXPECT_TRUE(what->holds(pool, 0));
    EXPECT_TRUE(what->guards_untouched());
    EXPECT_EQ(counters().payload_reads, reads);
    EXPECT_EQ(counters().entry_reads, 1u);
    EXPECT_EQ(counters().bounced_bytes, 0u);
    rig->rail->destinations->remove(what->memory.data());
  }

  const rail_counters& counters() { return rig->rail->counters; }
  std::uint64_t ended(session_end why) {
    rig->pass(1s);
    rig->steps(2);
    return rig->server->stats().ended[static_cast<std::size_t>(why)];
  }

  tests::fake_fabric fabric{7};
  test_pool pool;
  std::optional<verbs_rig> rig;
};

TEST_F(verbs_rows_test, a_piece_that_goes_to_many_places_is_one_read_for_sixteen_of_them) {
  expect_hit_in_reads(memory_rows::one_piece(0, 64'000), 2, 32);
}

TEST_F(verbs_rows_test, short_rows_are_read_with_what_lies_between_them) {
  expect_hit_in_reads({0, 1024, 32, 512}, 4);
  EXPECT_EQ(counters().payload_bytes, 4u * (8 * 512 + 7 * 512)) << "nothing behind the last row";
}

TEST_F(verbs_rows_test, long_rows_are_read_one_by_one) {
  expect_hit_in_reads({0, 2 * payload_reads::shared_stride_max, 10, 512}, 10);
  EXPECT_EQ(counters().payload_bytes, 10u * 512);
}

TEST_F(verbs_rows_test, rows_without_anything_between_them_are_one_piece) {
  expect_hit_in_reads({0, 512, 100, 512}, 1);
}

TEST_F(verbs_rows_test, rows_and_places_may_end_anywhere) {
  expect_hit_in_reads({0, 777, 40, 500}, 6, 7);
}

TEST_F(verbs_rows_test, pages_that_share_a_lease_share_the_look_at_it) {
  test_batch what(pool, 1000, 100);
  rig->place(what);
  ASSERT_TRUE(rig->rail->destinations->add(what.memory));
  for (auto& page : what.batch.pages) {
    page.slot = what.batch.pages[0].slot;
    page.gen = what.batch.pages[0].gen;
    page.key = what.batch.pages[0].key;
  }
  read(what);
  EXPECT_TRUE(what.all(page_status::hit));
  EXPECT_EQ(counters().entry_reads, 1u);
  EXPECT_EQ(counters().fences, 1u);
}

TEST_F(verbs_rows_test, many_small_pieces_use_several_channels_and_few_use_one) {
  test_batch few(pool, verbs_transport::pieces_per_channel, 64);
  rig->read(few, life);
  EXPECT_TRUE(few.all(page_status::hit));
  EXPECT_EQ(counters().channels, 1u);
  EXPECT_EQ(counters().fences, 1u);
  test_batch many(pool, 5 * verbs_transport::pieces_per_channel, 64);
  rig->read(many, life);
  EXPECT_TRUE(many.all(page_status::hit));
  EXPECT_EQ(counters().channels, verbs_transport::channels_per_batch_max);
  EXPECT_EQ(counters().fences, 1u + 5u);
}

TEST_F(verbs_rows_test, memory_that_is_removed_is_read_no_more_and_may_come_again) {
  test_batch what(pool, 2, 5000);
  rig->read(what, life);
  EXPECT_TRUE(what.all(page_status::hit));
  auto& spans = rig->server->spans();
  const auto memory = rig->lent->memory();
  EXPECT_FALSE(spans.add(memory.subspan(4096, 4096))) << "it is registered already";
  EXPECT_FALSE(spans.remove(memory.data() + 1));
  EXPECT_TRUE(spans.remove(memory.data()));
  EXPECT_FALSE(spans.remove(memory.data()));
  EXPECT_EQ(fabric.regions().size(), 2u) << "the table of leases, and the reader's bounce memory";

  test_batch late(pool, 2, 5000);
  rig->read(late, life);
  EXPECT_TRUE(late.all(page_status::unreachable));
  EXPECT_EQ(ended(session_end::memory_removed), 1u);

  EXPECT_TRUE(spans.add(memory.first(memory.size() / 2)));
  rig->steps(50); // Lets the reader hear of the added span.
  test_batch again(pool, 2, 5000);
  rig->read(again, life);
  EXPECT_TRUE(again.all(page_status::hit));
}

class removed_in_mid_read : public verbs_rows_test, public testing::WithParamInterface<bool> {};

TEST_P(removed_in_mid_read, is_no_hit_and_nothing_comes_later) {
  rig->windows = GetParam();
  rig->serve(pool, life);
  test_batch first(pool, 1, 100);
  rig->read(first, life);
  fabric.set_delay(1ms, 2ms);
  test_batch what(pool, 8, 40'000);
  rig->submit(what, life);
  rig->steps(20);
  EXPECT_TRUE(rig->server->spans().remove(rig->lent->memory().data()));
  rig->finish(what);
  EXPECT_TRUE(what.all(page_status::unreachable));
  const auto returned = what.memory;
  fabric.advance(1s);
  rig->steps(100);
  EXPECT_EQ(what.memory, returned);
  for (const auto& window : fabric.windows())
    EXPECT_NE(window.address, reinterpret_cast<std::uint64_t>(rig->lent->memory().data()));
}

INSTANTIATE_TEST_SUITE_P(verbs_rows_test, removed_in_mid_read, testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "with_windows" : "without_windows";
                         });

TEST_F(verbs_rows_test, memory_that_cannot_be_registered_is_not_served_at_all) {
  std::vector<std::byte> more(8u << 20);
  rig->chunk_bytes = chunk_plan::unit_bytes;
  rig->serve(pool, life);
  const auto before = fabric.regions().size();
  fabric.fail(tests::fake_call::register_memory, ENOMEM);
  EXPECT_FALSE(rig->server->spans().add(more));
  EXPECT_EQ(fabric.regions().size(), before);
  EXPECT_TRUE(rig->server->spans().add(more));
  EXPECT_TRUE(rig->server->spans().remove(more.data()));
  EXPECT_FALSE(rig->server->spans().add({}));
}

} // namespace
} // namespace peercache::rdma::verbs_rows_test
