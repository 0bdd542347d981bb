#include "actors/link_names.hpp"
#include "actors/session_table.hpp"

#include "link/protocol/pool_wire.hpp"

#include <gtest/gtest.h>

#include <set>

namespace peercache::actors {
namespace {

std::string slots_of(std::initializer_list<std::uint32_t> values) {
  std::string blob;
  for (auto value : values)
    append_record(blob, slot_id{value});
  return blob;
}

TEST(session_table, a_slot_belongs_to_the_session_until_it_is_returned) {
  session_table table;
  auto* owner = table.find(*table.open("client", {}));
  table.granted(*owner, slots_of({3, 7}));
  EXPECT_TRUE(table.returned(*owner, {3}));
  EXPECT_FALSE(table.returned(*owner, {3}));
  EXPECT_FALSE(table.returned(*owner, {4}));
}

TEST(session_table, no_slot_is_not_granted) {
  session_table table;
  auto id = *table.open("client", {});
  table.granted(*table.find(id), slots_of({no_slot.value, 1}));
  EXPECT_EQ(table.close(id), slots_of({1}));
}

TEST(session_table, closing_gives_back_what_was_not_returned) {
  session_table table;
  auto id = *table.open("client", {});
  table.granted(*table.find(id), slots_of({9}));
  EXPECT_EQ(table.close(id), slots_of({9}));
  EXPECT_EQ(table.find(id), nullptr);
  EXPECT_TRUE(table.close(id).empty());
}

TEST(session_table, lock_indices_are_not_shared_and_come_back) {
  session_table table;
  auto first = *table.open("a", {}), second = *table.open("b", {});
  EXPECT_NE(table.find(first)->lock_index, table.find(second)->lock_index);
  auto index = table.find(first)->lock_index;
  table.close(first);
  EXPECT_EQ(table.find(*table.open("c", {}))->lock_index, index);
}

TEST(session_table, a_lock_that_somebody_holds_yet_is_given_to_nobody) {
  session_table table;
  const auto held = [](std::uint32_t index) { return index < 3; };
  EXPECT_EQ(table.find(*table.open("a", {}, held))->lock_index, 3u);
  EXPECT_FALSE(table.open("b", {}, [](std::uint32_t) { return true; }));
}

/// Session ids are random: a client that could guess another session's id could give that session's
/// slots back.
TEST(session_table, ids_tell_nothing_of_other_ids) {
  std::set<std::uint64_t> ids;
  std::uint64_t any_bits = 0;
  for (int i = 0; i < 64; ++i) {
    session_table table; // Each table stands for one process.
    const auto first = *table.open("a", {}), second = *table.open("b", {});
    EXPECT_NE(second, first + 1);
    any_bits |= first;
    ids.insert({first, second});
  }
  EXPECT_EQ(ids.size(), 128u);
  EXPECT_EQ(any_bits, UINT64_MAX);
}

TEST(session_table, refuses_more_than_its_limit) {
  session_table table;
  for (std::uint32_t i = 0; i < session_table::sessions_max; ++i)
    ASSERT_TRUE(table.open("client", {}));
  EXPECT_FALSE(table.open("one too many", {}));
}

TEST(session_table, totals_include_sessions_that_ended) {
  session_table table;
  auto id = *table.open("a", {});
  table.find(id)->totals.set_bytes = 5;
  table.find(id)->totals.get_status = {1, 2};
  table.close(id);
  auto other = *table.open("b", {});
  table.find(other)->totals.set_bytes = 7;
  table.find(other)->totals.get_status = {1};
  EXPECT_EQ(table.totals().set_bytes, 12u);
  EXPECT_EQ(table.totals().get_status, (std::vector<std::uint64_t>{2, 2}));
}

} // namespace
} // namespace peercache::actors
