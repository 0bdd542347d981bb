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

} // namespace
} // namespace peercache::client
