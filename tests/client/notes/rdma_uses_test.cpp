#include "client/notes/rdma_uses.hpp"

#include "link/protocol/pool_wire.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace peercache::client {
namespace {

using link::used_page;

std::size_t records_of(const std::vector<rdma_uses::of_holder>& taken) {
  std::size_t records = 0;
  for (const auto& [holder, packed] : taken)
    records += *link::record_count<used_page>(packed);
  return records;
}

TEST(rdma_uses, about_one_hit_in_eight_is_taken_and_told_to_its_owner_once) {
  rdma_uses uses;
  for (std::uint32_t i = 0; i < 8000; ++i)
    uses.add({1, i % 2}, {i}, {2 * std::uint64_t{i} + 2});
  const auto taken = uses.take();
  ASSERT_EQ(taken.size(), 2u);
  EXPECT_NEAR(static_cast<double>(records_of(taken)), 1000, 150);
  for (const auto& [holder, packed] : taken)
    for (std::size_t i = 0; i < *link::record_count<used_page>(packed); ++i) {
      const auto page = link::record_at<used_page>(packed, i);
      ASSERT_EQ(page.slot.value % 2, holder.low);
      ASSERT_EQ(page.gen.value, 2 * std::uint64_t{page.slot.value} + 2);
    }
  EXPECT_TRUE(uses.take().empty());
}

TEST(rdma_uses, no_page_of_a_batch_that_comes_again_and_again_is_always_left_out) {
  rdma_uses uses;
  std::set<std::uint32_t> seen;
  for (int round = 0; round < 100; ++round)
    for (std::uint32_t slot = 0; slot < 64; ++slot)
      uses.add({1, 1}, {slot}, {2});
  for (const auto& [holder, packed] : uses.take())
    for (std::size_t i = 0; i < *link::record_count<used_page>(packed); ++i)
      seen.insert(link::record_at<used_page>(packed, i).slot.value);
  EXPECT_EQ(seen.size(), 64u);
}

TEST(rdma_uses, are_no_more_than_the_limit) {
  rdma_uses uses;
  for (std::size_t i = 0; i < 10 * rdma_uses::sample_one_in * rdma_uses::records_max; ++i)
    uses.add({1, i % 3}, {1}, {2});
  EXPECT_EQ(records_of(uses.take()), rdma_uses::records_max);
  for (std::uint32_t i = 0; i < 1000; ++i)
    uses.add({1, 1}, {i}, {2});
  EXPECT_GT(records_of(uses.take()), 0u);
}

} // namespace
} // namespace peercache::client
