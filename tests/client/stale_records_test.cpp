#include "client/stale_records.hpp"

#include <gtest/gtest.h>

namespace peercache::client {
namespace {

TEST(stale_records, are_handed_out_once_and_no_more_than_the_limit) {
  stale_records records;
  directory::withdraw_record record;
  record.gen = {4};
  for (std::size_t i = 0; i < stale_records::records_max + 10; ++i)
    records.add(record);
  auto taken = records.take();
  ASSERT_EQ(taken.size(), stale_records::records_max);
  EXPECT_EQ(taken.front(), record);
  EXPECT_TRUE(records.take().empty());
  records.add(record);
  EXPECT_EQ(records.take().size(), 1u);
}

TEST(stale_records, go_to_the_owners_of_their_keys) {
  stale_records records;
  std::vector<discovery::member> members(2);
  for (std::size_t i = 0; i < members.size(); ++i)
    members[i].id = {i + 1};
  const discovery::hash_ring ring(members);
  EXPECT_TRUE(records.take_batches(ring, 2).empty());
  directory::withdraw_record record;
  records.add(record);
  record.gen = {4};
  records.add(record);
  const auto batches = records.take_batches(ring, 2);
  ASSERT_EQ(batches.size(), 2u);
  EXPECT_NE(batches[0].owner, batches[1].owner);
  EXPECT_EQ(batches[0].records.size(), 2 * directory::wire::withdraw_record_bytes);
  EXPECT_TRUE(records.take().empty());
}

} // namespace
} // namespace peercache::client
