#include "storage/epoch_table.hpp"

#include "common/test_guards.hpp"

#include <atomic>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <thread>

namespace peercache::storage {
namespace {

class epoch_table_test : public testing::Test {
protected:
  std::unique_ptr<epoch_block> memory = std::make_unique<epoch_block>();
  epoch_table table{*memory};
  space_id a = space_named("a"), b = space_named("b");

  static page_key key_of(space_id space, epoch_number epoch) {
    auto key = key_space{}.key_of("page");
    std::memcpy(key.bytes.data() + key_digest_bytes, &space.value, sizeof space.value);
    set_epoch(key, epoch);
    return key;
  }
};

TEST_F(epoch_table_test, a_space_that_was_never_cleared_is_in_epoch_0) {
  EXPECT_TRUE(table.untouched());
  EXPECT_EQ(table.epoch_of(a), 0u);
  EXPECT_FALSE(table.is_old(key_of(a, 0)));
  EXPECT_EQ(epoch_table{}.epoch_of(a), 0u);
  EXPECT_FALSE(epoch_table{}.raise(a, 1));
}

TEST_F(epoch_table_test, an_epoch_rises_and_never_falls) {
  EXPECT_TRUE(table.raise(a, 3));
  EXPECT_FALSE(table.untouched());
  EXPECT_FALSE(table.raise(a, 3));
  EXPECT_FALSE(table.raise(a, 2));
  EXPECT_EQ(table.epoch_of(a), 3u);
  EXPECT_EQ(table.epoch_of(b), 0u) << "other spaces keep theirs";
}

TEST_F(epoch_table_test, a_page_of_an_epoch_before_is_old) {
  table.raise(a, 2);
  EXPECT_TRUE(table.is_old(key_of(a, 1)));
  EXPECT_FALSE(table.is_old(key_of(a, 2)));
  EXPECT_FALSE(table.is_old(key_of(a, 3))) << "of a client whose node knows more";
  EXPECT_FALSE(table.is_old(key_of(b, 0)));
}

TEST_F(epoch_table_test, without_its_guard_no_page_is_old) {
  table.raise(a, 2);
  guard_switched_off off(guard::epoch);
  EXPECT_FALSE(table.is_old(key_of(a, 1)));
}

TEST_F(epoch_table_test, who_maps_the_same_memory_sees_the_same) {
  table.raise(a, 5);
  EXPECT_EQ(epoch_table(*memory).epoch_of(a), 5u);
}

TEST_F(epoch_table_test, without_room_all_spaces_rise) {
  for (std::size_t i = 0; i < epoch_table::spaces_max; ++i)
    ASSERT_TRUE(table.raise(space_named(std::to_string(i)), 1));
  EXPECT_EQ(table.floor(), 0u);
  table.raise(space_named("7"), 4);
  EXPECT_TRUE(table.raise(space_named("one more"), 2));
  EXPECT_EQ(table.floor(), 4u);
  for (const auto* name : {"0", "7", "one more", "never cleared"})
    EXPECT_EQ(table.epoch_of(space_named(name)), 4u) << name;
  EXPECT_TRUE(table.raise(space_named("0"), 5)) << "there is room again";
  EXPECT_EQ(table.epoch_of(space_named("0")), 5u);
}

TEST_F(epoch_table_test, a_floor_leaves_higher_epochs_as_they_are) {
  table.raise(a, 7);
  table.raise(b, 2);
  EXPECT_TRUE(table.raise_floor(3));
  EXPECT_EQ(table.epoch_of(a), 7u);
  EXPECT_EQ(table.epoch_of(b), 3u);
  EXPECT_FALSE(table.raise_floor(3));
}

TEST_F(epoch_table_test, a_node_that_dies_in_a_change_leaves_nothing_to_be_found) {
  table.raise(a, 1);
  memory->changes.fetch_add(1);
  EXPECT_EQ(table.epoch_of(a), epoch_table::no_epoch);
  EXPECT_EQ(table.epoch_of(b), epoch_table::no_epoch);
  EXPECT_TRUE(table.raise(b, 1)) << "its successor goes on";
  EXPECT_EQ(table.epoch_of(a), 1u);
  EXPECT_EQ(table.epoch_of(b), 1u);
}

TEST_F(epoch_table_test, a_reader_beside_changes_never_sees_an_epoch_fall) {
  table.raise(a, 1);
  std::atomic<bool> stop{false};
  std::atomic<bool> fell{false};
  std::thread reader([&] {
    for (epoch_number last = 0; !stop.load();) {
      const auto now = table.epoch_of(a);
      if (now == epoch_table::no_epoch)
        continue; // The writing thread has been suspended in the middle of a change.
      fell = fell || now < last;
      last = now;
    }
  });
  for (epoch_number i = 0; i < 20; ++i) {
    for (int other = 0; other < 50; ++other)
      table.raise(space_named(std::to_string(other)), 2 * i + 1);
    table.raise(a, 2 * i + 2);
    table.raise_floor(2 * i + 1);
  }
  stop = true;
  reader.join();
  EXPECT_FALSE(fell);
  EXPECT_EQ(table.epoch_of(a), 40u);
}

TEST_F(epoch_table_test, is_closed_by_a_node_that_leaves_until_a_successor_opens_it) {
  EXPECT_FALSE(table.closed());
  EXPECT_FALSE(epoch_table{}.closed());
  table.raise(a, 3);
  table.close();
  EXPECT_TRUE(epoch_table(*memory).closed());
  EXPECT_EQ(table.epoch_of(a), 3u) << "what it knew stays known";
  table.open();
  EXPECT_FALSE(table.closed());
}

TEST_F(epoch_table_test, to_close_and_open_it_costs_calls_nothing_while_nothing_was_cleared) {
  table.close();
  table.open();
  EXPECT_TRUE(table.untouched());
}

TEST_F(epoch_table_test, a_change_that_a_node_died_in_ends_when_its_successor_opens_the_table) {
  table.raise(a, 3);
  memory->changes.fetch_add(1); // `changes` is odd now, as when the node dies within a change.
  ASSERT_EQ(table.epoch_of(a), epoch_table::no_epoch);
  EXPECT_FALSE(table.is_old(key_of(a, 1))) << "nobody knows, and whoever opens it looks again";
  table.open();
  EXPECT_EQ(table.epoch_of(a), 3u);
  EXPECT_TRUE(table.is_old(key_of(a, 1)));
}

TEST_F(epoch_table_test, a_copy_outlives_the_memory) {
  table.raise(a, 3);
  table.raise_floor(2);
  auto other = std::make_unique<epoch_block>();
  table.copy_to(*other);
  memory = std::make_unique<epoch_block>();
  EXPECT_EQ(epoch_table(*other).epoch_of(a), 3u);
  EXPECT_EQ(epoch_table(*other).epoch_of(b), 2u);
}

} // namespace
} // namespace peercache::storage
