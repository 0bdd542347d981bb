#include "actors/gateway/session_table.hpp"
#include "actors/link_names.hpp"

#include "link/protocol/pool_wire.hpp"

#include <gtest/gtest.h>

#include <set>
#include <utility>

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

TEST(session_table, the_list_has_each_session_with_its_slots_and_totals) {
  session_table table;
  auto first = *table.open("client-1/0.2.0", {});
  auto second = *table.open("client-2/0.2.0", {});
  table.find(first)->opened_ms = 17;
  table.granted(*table.find(first), slots_of({3, 7}));
  metrics::samples totals;
  totals.set(metrics::metric::pool_puts_total, 5);
  ASSERT_TRUE(table.report(*table.find(first), totals));
  table.find(second)->silent = true;
  auto rows = table.list().rows;
  ASSERT_EQ(rows.size(), 2u);
  if (rows[0].client != "client-1/0.2.0")
    std::swap(rows[0], rows[1]);
  EXPECT_EQ(rows[0].opened_ms, 17u);
  EXPECT_EQ(rows[0].slots, 2u);
  EXPECT_FALSE(rows[0].silent);
  EXPECT_EQ(rows[0].totals.count(metrics::metric::pool_puts_total), 5u);
  EXPECT_EQ(rows[1].client, "client-2/0.2.0");
  EXPECT_TRUE(rows[1].silent);
  table.close(first);
  table.close(second);
  EXPECT_TRUE(table.list().rows.empty());
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

/// Session ids must be random: a client that guessed the id of another session could give back that
/// session's slots.
TEST(session_table, ids_tell_nothing_of_other_ids) {
  std::set<std::uint64_t> ids;
  std::uint64_t any_bits = 0;
  for (int i = 0; i < 64; ++i) {
    session_table table; // Each table stands for a new process.
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
  using metrics::metric;
  session_table table;
  const auto session = [&table](std::uint64_t refreshes, std::uint64_t breakers) {
    const auto id = *table.open("a", {});
    metrics::samples said;
    said.set(metric::view_refreshes_total, refreshes);
    said.set(metric::breakers_open, breakers);
    EXPECT_TRUE(table.report(*table.find(id), said));
    return id;
  };
  table.close(session(5, 1));
  EXPECT_EQ(table.totals().count(metric::view_refreshes_total), 5u);
  EXPECT_EQ(table.totals().count(metric::breakers_open), 0u) << "that was then";
  session(7, 2);
  session(1, 3);
  EXPECT_EQ(table.totals().count(metric::view_refreshes_total), 13u);
  EXPECT_EQ(table.totals().count(metric::breakers_open), 5u);
}

/// Workers of sessions report samples with label values of their own choice. Such series must end
/// with the session, or their number would grow without limit.
TEST(session_table, what_sessions_named_in_their_own_words_ends_with_them) {
  using metrics::metric;
  session_table table;
  for (const auto* reason : {"port 1 is lost", "port 2 is lost"}) {
    const auto id = *table.open("worker", {});
    metrics::samples said;
    said.set(metric::handoff_last_failure_seconds, {"decode-7", reason}, 1'700'000'000);
    said.set(metric::handoff_rooms_total, {"decode", "failed"}, 1);
    EXPECT_TRUE(table.report(*table.find(id), said));
    EXPECT_EQ(table.totals().size(), 2u);
    table.close(id);
  }
  EXPECT_EQ(table.totals().size(), 1u);
  EXPECT_EQ(table.totals().count(metric::handoff_rooms_total, {"decode", "failed"}), 2u);
}

TEST(session_table, clients_that_name_ever_more_series_are_not_listened_to) {
  using metrics::metric;
  session_table table;
  metrics::samples said;
  for (std::size_t i = 0; said.size() < metrics::samples::series_max; ++i)
    said.set(metric::rdma_peer_reads_total, {std::to_string(i)}, 1);
  std::vector<std::uint64_t> ids;
  while (ids.size() < session_table::series_max / said.size()) {
    ids.push_back(*table.open("a", {}));
    ASSERT_TRUE(table.report(*table.find(ids.back()), said));
  }
  metrics::samples one;
  one.set(metric::view_refreshes_total, 1);
  auto& late = *table.find(*table.open("late", {}));
  EXPECT_FALSE(table.report(late, one));
  EXPECT_EQ(late.totals.size(), 0u);
  EXPECT_TRUE(table.report(*table.find(ids[0]), one)) << "fewer than before";
  EXPECT_TRUE(table.report(late, one));
  table.close(ids[1]);
  EXPECT_TRUE(table.report(*table.find(ids[0]), said)) << "a session that ended takes no room";
}

} // namespace
} // namespace peercache::actors
