// Tests of areas beside a pool: which bytes of them can be READ, by whom, and what it costs.

#include "rdma/verbs/rail_servers.hpp"
#include "tests/rdma/verbs/area_batch.hpp"
#include "tests/rdma/verbs/verbs_rail_rig.hpp"
#include "tests/rdma/verbs/verbs_rig.hpp"
#include "tests/support/fake_verbs/fake_verbs.hpp"

namespace peercache::rdma::verbs_areas_test {
namespace {

using namespace std::chrono_literals;

constexpr incarnation life{1, 1};
constexpr std::uint32_t line_bytes = 64;

/// A reader, and a server of a pool and areas, with memory windows or without.
class verbs_areas_test : public testing::TestWithParam<bool> {
protected:
  verbs_areas_test() {
    fabric.add(tests::roce_device("fake0", 1));
    fabric.add(tests::roce_device("fake1", 2));
    rig.emplace(verbs_rig_devices{"fake0", "fake1", [this](plane_rig& one) {
                                    one.now += 10us;
                                    fabric.advance(10us);
                                  }});
    rig->windows = GetParam();
    rig->serve(pool, life);
  }

  void TearDown() override {
    fabric.in_the_middle(nullptr);
    rig->plane().shutdown();
    rig.reset();
    EXPECT_TRUE(fabric.objects().none());
    EXPECT_EQ(fabric.misuse(), std::vector<std::string>{});
  }

  void add(std::span<std::byte> memory) {
    const auto added = rig->server->add_area(memory);
    ASSERT_TRUE(added) << to_string(added.error());
    lowest = std::min(lowest, reinterpret_cast<std::uint64_t>(memory.data()));
  }

  void submit(area_batch& what) {
    what.from(lowest);
    what.batch.peer = rig->peer(life);
    what.batch.deadline = rig->now + 5s;
    rig->plane().submit(what.batch);
  }
  void read(area_batch& what) {
    submit(what);
    while (!what.batch.complete())
      rig->step();
  }
  page_status status_at(const void* address) {
    area_batch one(line_bytes);
    one.add(reinterpret_cast<std::uint64_t>(address));
    read(one);
    return one.batch.pages[0].status;
  }

  const rail_counters& counters() { return rig->rail->counters; }
  verbs_rail_stats server_stats() {
    rig->pass(200ms);
    rig->steps(2);
    return rig->server->stats();
  }

  tests::fake_fabric fabric{7};
  test_pool pool;
  std::vector<std::byte> area = numbered_bytes(1u << 20, 1);
  std::optional<verbs_rig> rig;
  std::uint64_t lowest = ~std::uint64_t{0}; ///< Address of the lowest area.
};

TEST_P(verbs_areas_test, a_thousand_lines_arrive_in_one_round_without_entries_and_fences) {
  add(area);
  area_batch what(line_bytes);
  ASSERT_TRUE(rig->rail->destinations->add(what.memory()));
  for (std::size_t i = 0; i < 1024; ++i)
    what.add(&area[(i * 7919 % 16384) * line_bytes]);
  read(what);
  EXPECT_TRUE(what.all(page_status::hit));
  for (std::size_t i = 0; i < 1024; ++i)
    ASSERT_TRUE(what.holds(i, &area[(i * 7919 % 16384) * line_bytes])) << i;
  EXPECT_EQ(counters().area_reads, 1024u);
  EXPECT_EQ(counters().area_bytes, 1024u * line_bytes);
  EXPECT_EQ(counters().payload_reads + counters().entry_reads + counters().fences, 0u);
  EXPECT_EQ(counters().bounced_bytes, 0u);
  EXPECT_LE(counters().doorbells, 32u);
  counters().peers.for_each([](const std::string&, const peer_counts& counts) {
    EXPECT_EQ(counts.reads, 0u) << "no page was read";
    EXPECT_EQ(counts.errors, 0u);
  });
}

TEST_P(verbs_areas_test, no_thread_of_the_server_takes_part) {
  add(area);
  EXPECT_EQ(status_at(area.data()), page_status::hit);
  rig->steps(10);
  const auto before = server_stats();
  for (int i = 0; i < 100; ++i)
    ASSERT_EQ(status_at(&area[static_cast<std::size_t>(i) * line_bytes]), page_status::hit);
  const auto after = server_stats();
  EXPECT_EQ(after.turns, before.turns);
  EXPECT_EQ(after.area_chunks, 1u);
  EXPECT_EQ(after.area_bytes, area.size());
}

TEST_P(verbs_areas_test, an_area_that_comes_later_is_seen_by_an_open_connection) {
  add(area);
  EXPECT_EQ(status_at(area.data()), page_status::hit);
  auto more = numbered_bytes(64u << 10, 2);
  EXPECT_EQ(status_at(more.data()), page_status::unreachable);
  add(more);
  rig->steps(10);
  area_batch what(line_bytes);
  what.add(&more[4096]);
  what.add(&area[4096]);
  read(what);
  EXPECT_TRUE(what.all(page_status::hit));
  EXPECT_TRUE(what.holds(0, &more[4096]));
  EXPECT_TRUE(what.holds(1, &area[4096]));
  EXPECT_EQ(rig->reader->stats().connects, 1u);
  EXPECT_EQ(server_stats().area_chunks, 2u);
}

TEST_P(verbs_areas_test, neither_the_pool_nor_an_area_answers_for_the_other) {
  add(area);
  test_batch pages(pool, 2, 5000);
  rig->read(pages, life);
  ASSERT_TRUE(pages.all(page_status::hit));
  const auto slot = pages.batch.pages[0].slot;
  EXPECT_EQ(status_at(rig->memory.page(slot)), page_status::unreachable);
  EXPECT_EQ(status_at(&rig->memory.entry(slot)), page_status::unreachable);
  for (auto& page : pages.batch.pages)
    page.source = memory_rows::one_piece(reinterpret_cast<std::uint64_t>(area.data()), 5000);
  pages.batch.reset();
  rig->read(pages, life);
  EXPECT_TRUE(pages.all(page_status::bad_size)) << "a page of a pool has no address";
}

TEST_P(verbs_areas_test, a_piece_lies_in_announced_areas_as_a_whole) {
  add(std::span(area).subspan(4096, 8192));
  EXPECT_EQ(status_at(&area[4096]), page_status::hit);
  EXPECT_EQ(status_at(&area[4096 + 8192 - line_bytes]), page_status::hit);
  EXPECT_EQ(status_at(&area[4096 - 1]), page_status::unreachable);
  EXPECT_EQ(status_at(&area[4096 + 8192 - line_bytes + 1]), page_status::unreachable);
  EXPECT_EQ(status_at(&area[4096 + 8192]), page_status::unreachable);
  area_batch last(line_bytes);
  last.add(~std::uint64_t{0} - line_bytes);
  last.add(&area[4096]);
  read(last);
  EXPECT_EQ(last.batch.pages[0].status, page_status::unreachable);
  EXPECT_EQ(last.batch.pages[1].status, page_status::hit);
}

TEST_P(verbs_areas_test, a_piece_across_chunks_of_an_area_arrives_whole) {
  rig->chunk_bytes = chunk_plan::unit_bytes;
  rig->serve(pool, life);
  auto large = numbered_bytes(5u << 20, 3);
  add(large);
  const auto begin = reinterpret_cast<std::uintptr_t>(large.data());
  const auto border = (begin / chunk_plan::unit_bytes + 1) * chunk_plan::unit_bytes - begin;
  area_batch what(4096);
  what.add(&large[border - 2048]);
  read(what);
  EXPECT_TRUE(what.all(page_status::hit));
  EXPECT_TRUE(what.holds(0, &large[border - 2048]));
  EXPECT_EQ(counters().area_reads, 2u);
}

TEST_P(verbs_areas_test, pieces_into_unregistered_memory_arrive_as_well) {
  add(area);
  area_batch what(line_bytes);
  for (std::size_t i = 0; i < 700; ++i) // More than there are bounce blocks.
    what.add(&area[i * line_bytes]);
  read(what);
  EXPECT_TRUE(what.all(page_status::hit));
  for (std::size_t i = 0; i < 700; ++i)
    ASSERT_TRUE(what.holds(i, &area[i * line_bytes]));
  EXPECT_EQ(counters().bounced_bytes, 700u * line_bytes);
}

TEST_P(verbs_areas_test, a_piece_that_is_no_single_row_has_a_bad_size) {
  add(area);
  area_batch what(line_bytes);
  for (int i = 0; i < 4; ++i)
    what.add(area.data());
  what.batch.pages[0].source.rows = 0;
  what.batch.pages[1].source.rows = 2;
  what.batch.pages[1].source.row_bytes = line_bytes / 2;
  what.batch.pages[2].source.row_bytes = line_bytes + 1;
  read(what);
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_EQ(what.batch.pages[i].status, page_status::bad_size) << i;
  EXPECT_EQ(what.batch.pages[3].status, page_status::hit);
}

/// What the caller of such a batch has to know: nobody looks behind the bytes.
TEST_P(verbs_areas_test, bytes_that_are_torn_are_a_hit_which_the_caller_judges) {
  add(area);
  fabric.in_the_middle([&](const tests::fake_work& work) {
    if (work.remote_address == reinterpret_cast<std::uint64_t>(area.data()))
      std::fill_n(area.data(), line_bytes, std::byte{0xEE});
  });
  area_batch what(line_bytes);
  what.add(area.data());
  read(what);
  EXPECT_TRUE(what.all(page_status::hit));
  EXPECT_FALSE(what.holds(0, area.data())) << "a part of the bytes came from before";
}

TEST_P(verbs_areas_test, memory_of_the_pool_is_no_area_and_none_comes_twice) {
  auto inside = rig->memory.served().region.subspan(4096, 4096);
  EXPECT_EQ(rig->server->add_area(inside).error().code, errc::refused);
  add(area);
  EXPECT_EQ(rig->server->add_area(std::span(area).last(64)).error().code, errc::refused);
}

/// Readers count the bytes of areas from the lowest one: without it they would read other bytes.
TEST_P(verbs_areas_test, a_rail_that_failed_to_register_the_lowest_area_serves_none) {
  const auto first = std::span(area).first(64u << 10);
  const auto second = std::span(area).subspan(64u << 10, 64u << 10);
  lowest = reinterpret_cast<std::uint64_t>(first.data());
  fabric.fail(tests::fake_call::register_memory, ENOMEM, 2);
  EXPECT_FALSE(rig->server->add_area(first));
  const auto refused = rig->server->add_area(second); // The first one is tried again, and fails.
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, errc::refused);
  EXPECT_EQ(status_at(first.data()), page_status::unreachable);
  EXPECT_EQ(status_at(second.data()), page_status::unreachable);
  add(std::span(area).subspan(128u << 10, 64u << 10));
  lowest = reinterpret_cast<std::uint64_t>(first.data());
  rig->steps(10);
  area_batch what(line_bytes);
  what.add(&first[128]);
  what.add(&second[128]);
  read(what);
  EXPECT_TRUE(what.all(page_status::hit));
  EXPECT_TRUE(what.holds(0, &first[128]));
  EXPECT_TRUE(what.holds(1, &second[128]));
}

TEST_P(verbs_areas_test, an_area_above_the_lowest_waits_until_that_is_served) {
  const auto first = std::span(area).first(64u << 10);
  const auto second = std::span(area).subspan(64u << 10, 64u << 10);
  fabric.fail(tests::fake_call::register_memory, ENOMEM, 2);
  EXPECT_FALSE(rig->server->add_area(first));
  EXPECT_FALSE(rig->server->add_area(second));
  add(first);
  EXPECT_EQ(status_at(first.data()), page_status::hit);
  EXPECT_EQ(status_at(second.data()), page_status::hit);
  EXPECT_EQ(server_stats().area_chunks, 2u);
}

TEST_P(verbs_areas_test, an_area_above_one_that_failed_is_served_with_the_lowest) {
  const auto part = [this](std::size_t which) {
    return std::span(area).subspan(which * (64u << 10), 64u << 10);
  };
  add(part(0));
  fabric.fail(tests::fake_call::register_memory, ENOMEM, 2);
  EXPECT_FALSE(rig->server->add_area(part(1)));
  add(part(2));
  EXPECT_EQ(status_at(part(1).data()), page_status::unreachable);
  area_batch what(line_bytes);
  what.add(&part(2)[128]);
  read(what);
  EXPECT_TRUE(what.holds(0, &part(2)[128]));
  add(part(3));
  rig->steps(10);
  EXPECT_EQ(status_at(part(1).data()), page_status::hit) << "it was tried again";
}

INSTANTIATE_TEST_SUITE_P(rail, verbs_areas_test, testing::Bool(), [](const auto& info) {
  return info.param ? "with_windows" : "without_windows";
});

TEST(areas_of_two_rails, one_that_fails_leaves_the_area_to_the_other) {
  tests::fake_fabric fabric;
  fabric.add(tests::roce_device("fake0", 1));
  fabric.add(tests::roce_device("fake1", 2));
  rail_settings settings;
  settings.devices = {"auto"};
  const auto choice = choose_rails(settings);
  ASSERT_TRUE(choice);
  const rail_pool pool{5};
  const auto servers = rail_servers::open(*choice, settings, rail_options(), pool.served());
  ASSERT_TRUE(servers) << to_string(servers.error());
  auto area = numbered_bytes(64u << 10, 1);
  fabric.fail(tests::fake_call::register_memory, ENOMEM);
  const auto added = (*servers)->add_area(area);
  ASSERT_FALSE(added);
  EXPECT_NE(added.error().message.find("fake0/1"), std::string::npos) << added.error().message;
  const auto regions = fabric.regions();
  const auto serving = std::count_if(regions.begin(), regions.end(), [&](const auto& region) {
    return region.address == reinterpret_cast<std::uint64_t>(area.data());
  });
  EXPECT_EQ(serving, 1);
}

TEST(areas_over_tcp, are_unreachable_at_once_and_nothing_is_asked) {
  auto plane = make_tcp_data_plane({});
  ASSERT_TRUE(plane);
  area_batch what(line_bytes);
  what.add(0x10000);
  what.batch.peer = {{1}, life, "127.0.0.1", 1, "test", 1};
  what.batch.deadline = clock::now() + 5s;
  (*plane)->submit(what.batch);
  (*plane)->poll(clock::now());
  EXPECT_TRUE(what.batch.complete());
  EXPECT_TRUE(what.all(page_status::unreachable));
  EXPECT_EQ((*plane)->stats().connects, 0u);
}

TEST(areas_of_a_simulated_host, are_read_in_whole_pieces) {
  memory_network network;
  test_pool pool;
  const auto area = numbered_bytes(4096, 4);
  network.attach("host", 1, life, pool);
  network.add_area("host", 1, area);
  memory_data_plane plane(network, {});
  area_batch what(line_bytes);
  what.add(&area[128]);
  what.add(&area[4096 - line_bytes + 1]);
  what.add(area.data() - 1);
  what.from(reinterpret_cast<std::uint64_t>(area.data()));
  what.batch.peer = {{1}, life, "host", 1, "test", 1};
  what.batch.deadline = clock::now() + 5s;
  plane.submit(what.batch);
  plane.poll(clock::now());
  ASSERT_TRUE(what.batch.complete());
  EXPECT_EQ(what.batch.pages[0].status, page_status::hit);
  EXPECT_TRUE(what.holds(0, &area[128]));
  EXPECT_EQ(what.batch.pages[1].status, page_status::unreachable);
  EXPECT_EQ(what.batch.pages[2].status, page_status::unreachable);
}

TEST(areas_beside_leases, there_are_none) {
  tests::fake_fabric fabric;
  fabric.add(tests::roce_device("fake0", 1));
  std::vector<slot_entry> table(4);
  auto device = verbs::device::open("fake0", {});
  ASSERT_TRUE(device);
  auto server = verbs_rail_server::create(std::move(*device), {}, served_region::leases(table));
  ASSERT_TRUE(server) << to_string(server.error());
  std::vector<std::byte> memory(64);
  EXPECT_EQ((*server)->add_area(memory).error().code, errc::invalid_argument);
}

} // namespace
} // namespace peercache::rdma::verbs_areas_test
