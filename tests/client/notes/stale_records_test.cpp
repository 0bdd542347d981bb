#include "client/notes/stale_records.hpp"

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
  std::vector<discovery::member> members(3);
  for (std::size_t i = 0; i < members.size(); ++i)
    members[i].id = {i + 1};
  const discovery::hash_ring ring(members);
  EXPECT_TRUE(records.take_batches(ring, 1).empty());
  std::size_t added = 0;
  for (int i = 0; i < 64; ++i, ++added)
    records.add({key_space{}.key_of(std::to_string(i)), {1, 2}, {4}});
  std::size_t sent = 0;
  const auto batches = records.take_batches(ring, 1);
  EXPECT_EQ(batches.size(), members.size());
  for (const auto& batch : batches) {
    directory::withdraw_reader reader(batch.records);
    for (directory::withdraw_record record; reader.next(record); ++sent)
      EXPECT_TRUE(ring.owns(batch.owner, record.key, 1));
  }
  EXPECT_EQ(sent, added);
  EXPECT_TRUE(records.take().empty());
}

} // namespace
} // namespace peercache::client
