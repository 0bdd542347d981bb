#include "storage/page_table.hpp"

#include <gtest/gtest.h>

#include <iterator>
#include <map>
#include <random>

namespace peercache::storage::page_table_test {
namespace {

TEST(page_table, finds_nothing_when_empty) {
  const page_table table;
  EXPECT_EQ(table.find(slot_id{0}), node_index::none);
  EXPECT_TRUE(table.slots().empty());
}

TEST(page_table, agrees_with_a_map_under_random_operations) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    page_table table;
    std::map<std::uint32_t, std::uint32_t> model; // The length of the page in each slot.
    for (int step = 0; step < 5000; ++step) {
      // Few different slots, so that they repeat; one time in a hundred the largest possible slot.
      const std::uint32_t slot =
          random() % 100 == 0 ? 0xffffffff : static_cast<std::uint32_t>(random() % 600) * 256;
      const node_index node = table.find(slot_id{slot});
      ASSERT_EQ(node != node_index::none, model.count(slot) == 1);
      if (node == node_index::none) {
        const auto length = static_cast<std::uint32_t>(random() % limits::page_bytes_max) + 1;
        table.add(slot_id{slot}, slot + 7ull, length);
        model[slot] = length;
      } else {
        ASSERT_EQ(table[node].slot, slot_id{slot});
        ASSERT_EQ(table[node].key_digest, slot + 7ull);
        ASSERT_EQ(table[node].length_bytes, model[slot]);
        table.remove(node);
        model.erase(slot);
      }
      ASSERT_EQ(table.size(), model.size());
    }
    for (const slot_id slot : table.slots()) {
      ASSERT_EQ(model.erase(slot.value), 1u);
    }
    ASSERT_TRUE(model.empty());
  }
}

TEST(page_table, a_page_costs_at_most_32_bytes) {
  page_table table;
  for (std::uint32_t i = 0; i < 300'000; ++i) {
    table.add(slot_id{i * 16}, i, 1);
    if (i >= 20'000 && i % 1000 == 0) {
      ASSERT_LE(table.memory_bytes(), (i + 1) * 32ull) << i;
    }
  }
}

TEST(page_table, steady_state_takes_no_more_memory) {
  page_table table;
  for (std::uint32_t i = 0; i < 10'000; ++i) {
    table.add(slot_id{i}, i, 1);
  }
  const std::size_t before = table.memory_bytes();
  for (std::uint32_t i = 10'000; i < 200'000; ++i) {
    table.remove(table.find(slot_id{i - 10'000}));
    table.add(slot_id{i}, i, 1);
  }
  EXPECT_EQ(table.memory_bytes(), before);
}

TEST(page_table, moved_from_it_is_empty_and_usable) {
  page_table from;
  from.add(slot_id{5}, 1, 1);
  page_table to = std::move(from);
  EXPECT_NE(to.find(slot_id{5}), node_index::none);
  EXPECT_EQ(from.find(slot_id{5}), node_index::none);
  from.add(slot_id{5}, 2, 1);
  EXPECT_EQ(from.size(), 1u);
}

TEST(page_table_death, a_slot_that_is_added_twice_is_our_bug) {
  page_table table;
  table.add(slot_id{5}, 1, 1);
  EXPECT_DEATH(table.add(slot_id{5}, 1, 1), "find");
}

TEST(page_queue, appending_keeps_the_order_and_adds_the_bytes) {
  page_table table;
  page_queue left, right, empty;
  for (std::uint32_t i = 0; i < 4; ++i) {
    (i < 2 ? left : right).push_back(table, table.add(slot_id{i}, i, 10 + i));
  }
  left.append(table, empty);
  left.append(table, right);
  empty.append(table, left);
  EXPECT_TRUE(left.empty());
  EXPECT_TRUE(right.empty());
  EXPECT_EQ(empty.bytes(), 46u);
  for (std::uint32_t i = 0; i < 4; ++i) {
    ASSERT_EQ(table[empty.front()].slot, slot_id{i});
    empty.unlink(table, empty.front());
  }
  EXPECT_EQ(empty.bytes(), 0u);
}

} // namespace
} // namespace peercache::storage::page_table_test
