#include "client/calls/set_plan.hpp"

#include "common/limits.hpp"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace peercache::client {
namespace {

using enum page_status;

constexpr std::uint32_t page_bytes = 4096;

/// A set of some pages; the test plays the node and makes the copies.
class set_plan_test : public testing::Test {
protected:
  set_plan& begin(std::size_t count) {
    return begin(std::vector<std::uint32_t>(count, page_bytes));
  }
  set_plan& begin(const std::vector<std::uint32_t>& lengths) {
    parts.clear();
    pages.clear();
    for (const auto length : lengths)
      parts.push_back({nullptr, length});
    for (std::size_t i = 0; i < lengths.size(); ++i)
      pages.push_back({key_space{}.key_of(std::to_string(i)), std::span(parts).subspan(i, 1)});
    results.assign(lengths.size(), {});
    plan.emplace(pages, results);
    return *plan;
  }

  static std::string packed(const std::vector<slot_id>& slots) {
    std::string bytes;
    for (const auto slot : slots)
      link::append_record(bytes, slot);
    return bytes;
  }
  /// Answers the plan's request for slots, as the node, with these slots.
  void give(const std::vector<slot_id>& slots, page_status why_not = pending) {
    plan->ask();
    plan->take_slots(packed(slots), why_not);
  }
  void fill_all() {
    for (const auto& page : plan->to_fill())
      plan->filled(page.index, 100 + page.index);
  }
  std::vector<link::filled_slot> commit() {
    const auto told = plan->commit([this](const link::filled_slot& page) {
      shown.push_back(page.slot);
      return !taken_back.contains(page.slot);
    });
    std::vector<link::filled_slot> filled;
    for (std::size_t i = 0; i < link::record_count<link::filled_slot>(told); ++i)
      filled.push_back(link::record_at<link::filled_slot>(told, i));
    return filled;
  }
  std::vector<slot_id> unfilled() {
    const auto told = plan->take_unfilled();
    std::vector<slot_id> slots;
    for (std::size_t i = 0; i < link::record_count<slot_id>(told); ++i)
      slots.push_back(link::record_at<slot_id>(told, i));
    return slots;
  }
  void expect_all(page_status wanted) {
    for (const auto& result : results)
      EXPECT_EQ(result.status, wanted) << to_string(result.status);
  }

  std::vector<const_part> parts;
  std::vector<set_page> pages;
  std::vector<page_result> results;
  std::optional<set_plan> plan;
  /// Slots that the node has taken back; for them the test's `make_readable` returns false.
  std::set<slot_id> taken_back;
  std::vector<slot_id> shown;
};

TEST_F(set_plan_test, a_page_of_no_length_or_too_large_is_refused_and_gets_no_slot) {
  begin({0, page_bytes, limits::page_bytes_max + 1});
  EXPECT_EQ(results[0].status, bad_size);
  EXPECT_EQ(results[2].status, bad_size);
  EXPECT_EQ(plan->without_slot(), std::vector{1u});
  EXPECT_EQ(plan->bytes(), page_bytes);
}

TEST_F(set_plan_test, a_page_that_the_own_host_has_is_not_stored_again) {
  begin(2);
  EXPECT_TRUE(plan->is_here(0));
  EXPECT_EQ(results[0].status, duplicate);
  EXPECT_EQ(plan->bytes(), page_bytes);
  EXPECT_EQ(plan->without_slot(), std::vector{1u});
}

TEST_F(set_plan_test, a_malformed_page_is_no_duplicate) {
  begin(std::vector<std::uint32_t>{0});
  EXPECT_FALSE(plan->is_here(0));
  EXPECT_EQ(results[0].status, bad_size);
}

TEST_F(set_plan_test, of_pages_that_are_all_here_there_is_nothing_to_do) {
  begin(2);
  plan->is_here(0);
  plan->is_here(1);
  EXPECT_EQ(plan->bytes(), 0u);
}

TEST_F(set_plan_test, what_cannot_begin_ends_all_pages_that_are_not_decided) {
  for (const auto why : {unreachable, timed_out, page_status::refused}) {
    begin({page_bytes, 0, page_bytes});
    plan->is_here(2);
    plan->fail(why);
    EXPECT_EQ(results[0].status, why);
    EXPECT_EQ(results[1].status, bad_size);
    EXPECT_EQ(results[2].status, duplicate);
  }
}

TEST_F(set_plan_test, the_node_is_asked_for_the_pages_without_a_leased_slot) {
  begin({page_bytes, 8192, 64});
  plan->lease(1, {7});
  const auto lengths = plan->ask();
  ASSERT_EQ(link::record_count<std::uint32_t>(lengths), 2u);
  EXPECT_EQ(link::record_at<std::uint32_t>(lengths, 0), page_bytes);
  EXPECT_EQ(link::record_at<std::uint32_t>(lengths, 1), 64u);
  plan->take_slots(packed({{3}, {4}}), pending);
  const auto all = plan->to_fill();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].slot, slot_id{3});
  EXPECT_EQ(all[1].slot, slot_id{7});
  EXPECT_EQ(all[2].slot, slot_id{4});
}

TEST_F(set_plan_test, the_node_is_not_asked_when_all_pages_have_leased_slots) {
  begin(1);
  plan->lease(0, {7});
  EXPECT_TRUE(plan->ask().empty());
}

TEST_F(set_plan_test, leased_slots_are_filled_while_the_node_finds_others) {
  begin(2);
  plan->lease(0, {7});
  plan->ask();
  ASSERT_EQ(plan->to_fill().size(), 1u);
  fill_all();
  plan->take_slots(packed({{3}}), pending);
  const auto rest = plan->to_fill();
  ASSERT_EQ(rest.size(), 1u) << "the first one is filled";
  EXPECT_EQ(rest[0].index, 1u);
}

TEST_F(set_plan_test, a_page_without_room_is_asked_for_again) {
  begin({page_bytes, 8192, 64});
  give({{3}, link::no_slot, {4}});
  fill_all();
  ASSERT_TRUE(plan->lacks_space());
  const auto lengths = plan->ask_again();
  ASSERT_EQ(link::record_count<std::uint32_t>(lengths), 1u);
  EXPECT_EQ(link::record_at<std::uint32_t>(lengths, 0), 8192u);
  plan->take_slots(packed({{9}}), pending);
  EXPECT_FALSE(plan->lacks_space());
  ASSERT_EQ(plan->to_fill().size(), 1u) << "the others are filled";
  fill_all();
  EXPECT_EQ(commit().size(), 3u);
}

TEST_F(set_plan_test, a_page_that_the_node_has_no_room_for_is_not_stored) {
  begin(2);
  give({{3}, link::no_slot});
  EXPECT_EQ(results[1].status, no_space);
  fill_all();
  EXPECT_EQ(commit().size(), 1u);
}

TEST_F(set_plan_test, a_short_answer_is_no_room_for_the_rest) {
  begin(3);
  give({{3}});
  EXPECT_EQ(results[0].status, pending);
  EXPECT_EQ(results[1].status, no_space);
  EXPECT_EQ(results[2].status, no_space);
}

TEST_F(set_plan_test, why_there_are_no_slots_is_the_pages_reason) {
  for (const auto why : {unreachable, page_status::refused, timed_out, closed}) {
    begin(2);
    give({}, why);
    expect_all(why);
    EXPECT_TRUE(plan->to_fill().empty());
    EXPECT_TRUE(commit().empty());
  }
}

TEST_F(set_plan_test, the_node_is_told_of_the_filled_pages_in_the_order_of_the_call) {
  begin({page_bytes, 8192});
  give({{9}, {2}});
  fill_all();
  const auto told = commit();
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0].key, pages[0].key);
  EXPECT_EQ(told[0].slot, slot_id{9});
  EXPECT_EQ(told[0].checksum, 100u);
  EXPECT_EQ(told[1].slot, slot_id{2});
  EXPECT_EQ(told[1].length_bytes, 8192u);
  EXPECT_EQ(told[1].checksum, 101u);
  expect_all(stored);
  EXPECT_EQ(results[0].origin, page_origin::own_host);
  EXPECT_TRUE(unfilled().empty());
}

TEST_F(set_plan_test, a_slot_that_there_was_no_time_to_fill_goes_back) {
  begin(2);
  give({{3}, {4}});
  plan->filled(0, 1);
  plan->too_late(1);
  EXPECT_EQ(results[1].status, timed_out);
  EXPECT_EQ(commit().size(), 1u);
  EXPECT_EQ(unfilled(), std::vector{slot_id{4}});
  EXPECT_TRUE(unfilled().empty()) << "given back once";
}

TEST_F(set_plan_test, a_slot_that_the_node_has_taken_back_is_not_committed) {
  begin(2);
  give({{3}, {4}});
  fill_all();
  taken_back = {{3}};
  const auto told = commit();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].slot, slot_id{4});
  EXPECT_EQ(results[0].status, page_status::refused);
  EXPECT_EQ(results[0].origin, page_origin::none);
  EXPECT_EQ(results[1].status, stored);
  EXPECT_EQ(unfilled(), std::vector{slot_id{3}});
}

TEST_F(set_plan_test, nothing_is_shown_to_readers_before_the_commit) {
  begin(2);
  give({{3}, {4}});
  fill_all();
  EXPECT_TRUE(shown.empty());
  commit();
  EXPECT_EQ(shown, (std::vector{slot_id{3}, slot_id{4}}));
}

TEST_F(set_plan_test, every_slot_is_committed_or_given_back_once) {
  std::mt19937_64 random{1};
  for (int round = 0; round < 2000; ++round) {
    const auto below = [&](std::uint64_t limit) { return random() % limit; };
    begin(1 + below(12));
    std::uint32_t next_slot = 0;
    std::multiset<slot_id> given;
    const auto new_slot = [&] {
      given.insert({next_slot});
      return slot_id{next_slot++};
    };
    for (std::size_t i = 0; i < pages.size(); ++i)
      if (below(8) == 0)
        plan->is_here(i);
    for (const auto index : plan->without_slot())
      if (below(2) == 0)
        plan->lease(index, new_slot());
    const auto fill = [&] {
      for (const auto& page : plan->to_fill())
        below(6) == 0 ? plan->too_late(page.index) : plan->filled(page.index, 1);
    };
    const auto asked = link::record_count<std::uint32_t>(plan->ask()).value();
    fill();
    std::vector<slot_id> slots;
    for (auto count = below(asked + 1); count > 0; --count)
      slots.push_back(below(6) == 0 ? link::no_slot : new_slot());
    plan->take_slots(packed(slots), pending);
    fill();
    if (plan->lacks_space() && below(2) == 0) {
      plan->ask_again();
      plan->take_slots(packed({new_slot()}), pending);
      fill();
    }
    taken_back.clear();
    for (const auto slot : given)
      if (below(6) == 0)
        taken_back.insert(slot);
    std::multiset<slot_id> seen;
    std::size_t told = 0;
    for (const auto& page : commit()) {
      seen.insert(page.slot);
      ++told;
    }
    for (const auto slot : unfilled())
      seen.insert(slot);
    ASSERT_EQ(seen, given) << "round " << round;
    for (const auto& result : results) {
      ASSERT_NE(result.status, pending);
      told -= result.status == stored ? 1 : 0;
    }
    ASSERT_EQ(told, 0u) << "each stored page is in the commit";
  }
}

TEST(slots_to_lease, are_some_batches_of_the_set) {
  const slots_to_lease wanted(4, page_bytes, 1ull << 40);
  EXPECT_EQ(wanted.at_rest, 64u);
  EXPECT_EQ(wanted.most, (32u << 20) / page_bytes);
}

TEST(slots_to_lease, are_a_small_share_of_the_pool) {
  EXPECT_EQ(slots_to_lease(1000, page_bytes, 64u << 20).at_rest, (1u << 20) / page_bytes);
  EXPECT_EQ(slots_to_lease(1, 1u << 20, 1u << 20).at_rest, 0u) << "a pool of one page leases none";
  EXPECT_EQ(slots_to_lease(1, 1u << 20, 1u << 20).most, 0u);
}

TEST(slots_to_lease, are_bounded_in_bytes) {
  EXPECT_EQ(slots_to_lease(1u << 20, page_bytes, 1ull << 40).at_rest, (32u << 20) / page_bytes);
}

} // namespace
} // namespace peercache::client
