#include "rdma/verbs/remote_region.hpp"

#include "common/limits.hpp"
#include "common/slot_entry.hpp"

#include <gtest/gtest.h>

namespace peercache::rdma::remote_region_test {
namespace {

constexpr std::uint64_t table = 1u << 30;
constexpr std::uint32_t granules = 100;
constexpr std::uint64_t pages = table + granules * sizeof(slot_entry);
constexpr std::uint64_t end = pages + std::uint64_t{granules} * limits::granule_bytes;

verbs_answer announced(std::uint32_t chunks) {
  verbs_answer answer;
  answer.table_address = table;
  answer.pages_address = pages;
  answer.granules = granules;
  answer.chunks = chunks;
  answer.region_bytes = end - table;
  return answer;
}

region_chunk chunk(std::uint32_t index, std::uint64_t address, std::uint64_t bytes) {
  region_chunk made;
  made.index = index;
  made.address = address;
  made.bytes = bytes;
  made.rkey = 10 + index;
  return made;
}

TEST(remote_region, finds_the_key_and_how_far_it_reaches) {
  remote_region region(announced(2));
  EXPECT_TRUE(region.add(chunk(1, table + 5000, end - table - 5000)));
  EXPECT_FALSE(region.find(table + 10)) << "not registered yet";
  EXPECT_FALSE(region.complete());
  EXPECT_TRUE(region.add(chunk(0, table, 5000)));
  EXPECT_TRUE(region.complete());
  EXPECT_EQ(region.find(table + 10)->rkey, 10u);
  EXPECT_EQ(region.find(table + 10)->bytes, 4990u);
  EXPECT_EQ(region.find(table + 5000)->rkey, 11u);
  EXPECT_FALSE(region.find(end));
}

TEST(remote_region, refuses_chunks_that_overlap_lie_outside_or_are_too_many) {
  remote_region region(announced(2));
  EXPECT_FALSE(region.add(chunk(0, table - 1, 10)));
  EXPECT_FALSE(region.add(chunk(0, end - 5, 10)));
  EXPECT_TRUE(region.add(chunk(0, table, 5000)));
  EXPECT_FALSE(region.add(chunk(1, table + 4999, 10)));
  EXPECT_TRUE(region.add(chunk(1, table + 5000, 10)));
  EXPECT_FALSE(region.add(chunk(1, table + 6000, 10)));
}

region_chunk area(std::uint64_t address, std::uint64_t bytes, std::uint32_t rkey = 50) {
  auto made = chunk(0, address, bytes);
  made.kind = chunk_kind::area;
  made.rkey = rkey;
  return made;
}

TEST(remote_region, areas_and_the_pool_do_not_answer_for_each_other) {
  remote_region region(announced(1));
  EXPECT_TRUE(region.add(area(end, 4096)));
  EXPECT_FALSE(region.complete()) << "an area is no part of the pool";
  EXPECT_TRUE(region.add(chunk(0, table, end - table)));
  EXPECT_TRUE(region.complete());
  EXPECT_TRUE(region.add(area(table - 4096, 4096, 51))) << "areas come later, too";
  EXPECT_TRUE(region.complete());
  EXPECT_EQ(region.find_area(end + 64)->rkey, 50u);
  EXPECT_EQ(region.find_area(end + 64)->bytes, 4032u);
  EXPECT_EQ(region.find_area(table - 64)->rkey, 51u);
  EXPECT_EQ(region.find_area(table - 64)->bytes, 64u) << "not into the pool";
  EXPECT_FALSE(region.find_area(end + 4096));
  EXPECT_FALSE(region.find_area(table));
  EXPECT_FALSE(region.find_area(end - 1));
  EXPECT_FALSE(region.find(end));
  EXPECT_FALSE(region.find(table - 1));
}

TEST(remote_region, refuses_areas_that_overlap_or_are_too_many) {
  remote_region region(announced(1));
  EXPECT_FALSE(region.add(area(end - 1, 64)));
  EXPECT_TRUE(region.add(area(end, 64)));
  EXPECT_FALSE(region.add(area(end, 64))) << "twice";
  EXPECT_FALSE(region.add(area(end + 63, 64)));
  for (std::uint64_t i = 1; i < area_chunks_max; ++i)
    ASSERT_TRUE(region.add(area(end + i * 64, 64)));
  EXPECT_FALSE(region.add(area(end + area_chunks_max * 64, 64)));
  EXPECT_TRUE(region.add(chunk(0, table, end - table))) << "the pool's chunks count apart";
}

TEST(remote_region, a_server_of_leases_has_no_areas) {
  auto answer = announced(4);
  answer.service = data_service::handoff;
  remote_region leases(answer);
  EXPECT_FALSE(leases.add(area(end, 64)));
  EXPECT_TRUE(leases.add(chunk(0, end, 64)));
  EXPECT_FALSE(leases.find_area(end));
}

TEST(remote_region, pages_beyond_the_pool_have_no_address) {
  remote_region region(announced(1));
  EXPECT_EQ(region.page_address({0}, 1), pages);
  EXPECT_EQ(region.page_address({99}, 4096), pages + 99 * 4096);
  EXPECT_FALSE(region.page_address({99}, 4097));
  EXPECT_FALSE(region.page_address({100}, 1));
  EXPECT_FALSE(region.page_address({0xffffffff}, limits::page_bytes_max));
  EXPECT_FALSE(region.page_address({0}, 0));
  EXPECT_EQ(region.entry_address({7}), table + 7 * sizeof(slot_entry));
}

TEST(remote_region, finds_a_pages_bytes_in_its_slot_or_in_its_rows) {
  const remote_region pool(announced(1));
  page_read page;
  page.slot = {3};
  page.length_bytes = 600;
  EXPECT_EQ(pool.byte_address(page, 70), pages + 3 * limits::granule_bytes + 70);
  page.slot = {granules};
  EXPECT_FALSE(pool.byte_address(page, 0));

  auto answer = announced(1);
  answer.service = data_service::handoff;
  const remote_region leases(answer);
  page.slot = {granules - 1};
  EXPECT_FALSE(leases.byte_address(page, 0)) << "a page that names no rows";
  page.source = {5000, 300, 6, 100};
  EXPECT_EQ(leases.byte_address(page, 0), 5000u);
  EXPECT_EQ(leases.byte_address(page, 250), 5000u + 2 * 300 + 50);
  page.slot = {granules};
  EXPECT_FALSE(leases.byte_address(page, 0)) << "there is no such lease";
}

} // namespace
} // namespace peercache::rdma::remote_region_test
