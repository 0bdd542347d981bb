#include "storage/disk/record_table.hpp"

#include <gtest/gtest.h>

namespace peercache::storage {
namespace {

record_table::entry record(std::uint8_t key, std::uint64_t sequence) {
  record_table::entry made;
  made.page.key.bytes[0] = key;
  made.page.length_bytes = 100;
  made.sequence = sequence;
  return made;
}

page_key key(std::uint8_t number) {
  return record(number, 0).page.key;
}

std::vector<std::uint64_t> released(record_table& table) {
  std::vector<std::uint64_t> sequences;
  for (const auto& gone : table.take_released())
    sequences.push_back(gone.sequence);
  return sequences;
}

disk_eviction evict(record_table& table, std::size_t count) {
  std::size_t gone = 0;
  return table.begin_eviction([&] { return gone == count; },
                              [&](const record_table::entry&) { ++gone; });
}

using sequences = std::vector<std::uint64_t>;

TEST(record_table, what_is_replaced_or_erased_is_released_once) {
  record_table table;
  table.insert(record(1, 1));
  EXPECT_EQ(table.insert(record(1, 2))->sequence, 1u);
  EXPECT_EQ(released(table), sequences{1});
  EXPECT_EQ(table.erase(key(1))->sequence, 2u);
  EXPECT_FALSE(table.erase(key(1)));
  EXPECT_EQ(released(table), sequences{2});
  EXPECT_FALSE(table.has_released());
}

TEST(record_table, a_reader_holds_its_record_until_the_last_one_is_done) {
  record_table table;
  table.insert(record(1, 1));
  table.pin(1);
  table.pin(1);
  table.insert(record(1, 2));
  table.unpin(1);
  EXPECT_FALSE(table.has_released());
  table.unpin(1);
  EXPECT_EQ(released(table), sequences{1});
  table.pin(2);
  table.unpin(2);
  EXPECT_FALSE(table.has_released());
  EXPECT_NE(table.find(key(1)), nullptr);
}

TEST(record_table, evicted_records_wait_for_their_ticket_and_for_readers) {
  record_table table;
  for (std::uint8_t i = 1; i <= 4; ++i)
    table.insert(record(i, i));
  table.pin(2);
  const auto chosen = evict(table, 2);
  ASSERT_EQ(chosen.pages.size(), 2u);
  EXPECT_EQ(chosen.pages[0].key, key(1));
  EXPECT_EQ(table.find(key(2)), nullptr);
  EXPECT_FALSE(table.has_released());
  table.finish_eviction(chosen.ticket);
  EXPECT_EQ(released(table), sequences{1});
  table.unpin(2);
  EXPECT_EQ(released(table), sequences{2});
  table.finish_eviction(chosen.ticket);
  EXPECT_FALSE(table.has_released());
}

TEST(record_table, evicts_nothing_when_it_is_enough_or_nothing_is_there) {
  record_table table;
  EXPECT_EQ(evict(table, 1).ticket, 0u);
  table.insert(record(1, 1));
  EXPECT_EQ(evict(table, 0).ticket, 0u);
  EXPECT_NE(evict(table, 9).ticket, 0u);
}

TEST(record_table, the_order_is_that_of_the_records_until_they_are_touched) {
  record_table table;
  for (const std::uint64_t sequence : {3u, 1u, 4u, 2u})
    table.insert(record(static_cast<std::uint8_t>(sequence), sequence));
  table.touch(key(1));
  table.insert(record(5, 5));
  sequences order;
  for (const auto& page : evict(table, 5).pages)
    order.push_back(page.key.bytes[0]);
  EXPECT_EQ(order, (sequences{2, 3, 4, 1, 5}));
}

} // namespace
} // namespace peercache::storage
