#include "client/calls/remove_plan.hpp"

#include "link/protocol/pool_wire.hpp"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <string>
#include <vector>

namespace peercache::client {
namespace {

using namespace std::chrono_literals;
using enum page_status;

TEST(join_removals, is_a_hit_only_when_a_holder_really_had_the_page) {
  EXPECT_EQ(join_removals(pending, hit), hit);
  EXPECT_EQ(join_removals(pending, not_found), not_found) << "the record was out of date";
  EXPECT_EQ(join_removals(not_found, hit), hit);
  EXPECT_EQ(join_removals(hit, not_found), hit);
}

TEST(join_removals, a_holder_that_could_not_be_asked_may_still_have_the_page) {
  EXPECT_EQ(join_removals(hit, unreachable), unreachable);
  EXPECT_EQ(join_removals(timed_out, hit), timed_out);
  EXPECT_EQ(join_removals(timed_out, unreachable), timed_out);
}

/// A remove of some keys; the test gives the nodes' answers.
class remove_plan_test : public testing::Test {
protected:
  using share = remove_plan::share;

  remove_plan& begin(std::size_t count) {
    keys.clear();
    for (std::size_t i = 0; i < count; ++i)
      keys.push_back(key_space{}.key_of(std::to_string(i)));
    results.assign(count, {});
    plan.emplace(keys, results);
    return *plan;
  }

  static lookup_answer found(const std::vector<incarnation>& holders, std::uint64_t gen = 2) {
    lookup_answer answer;
    answer.status = hit;
    for (const auto& holder : holders) {
      auto& place = answer.locations[answer.count++];
      place.holder = holder;
      place.gen = {gen};
    }
    return answer;
  }
  static lookup_answer without(page_status why) {
    lookup_answer answer;
    answer.status = why;
    return answer;
  }

  void look_up(const std::vector<lookup_answer>& answers) { plan->looked_up(answers); }
  std::vector<share> ask() {
    const auto in_view = [this](const auto& at) { return members.contains(at.holder); };
    return plan->ask_holders(in_view, members.contains(own) ? own : incarnation{});
  }

  static std::string packed(const std::vector<page_status>& statuses) {
    std::string bytes;
    for (const auto status : statuses)
      bytes.push_back(static_cast<char>(status));
    return bytes;
  }
  void answer(const share& asked, const std::vector<page_status>& statuses) {
    plan->answered(asked, packed(statuses), stale_told);
  }
  static void expect_keys(const share& asked, const std::vector<page_key>& wanted) {
    ASSERT_EQ(link::record_count<page_key>(asked.keys), wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i)
      EXPECT_EQ(link::record_at<page_key>(asked.keys, i), wanted[i]);
  }

  const incarnation own{1, 1};
  const incarnation near{1, 2};
  const incarnation far{1, 3};
  const incarnation stranger{1, 4};
  std::set<incarnation> members{own, near, far};
  std::vector<page_key> keys;
  std::vector<page_result> results;
  std::optional<remove_plan> plan;
  stale_records stale_told;
};

TEST_F(remove_plan_test, each_holder_is_asked_once_for_all_its_pages) {
  begin(3);
  look_up({found({near}), found({near, far}), found({far})});
  const auto shares = ask();
  ASSERT_EQ(shares.size(), 2u);
  EXPECT_EQ(shares[0].holder, near);
  expect_keys(shares[0], {keys[0], keys[1]});
  EXPECT_EQ(shares[1].holder, far);
  expect_keys(shares[1], {keys[1], keys[2]});
}

TEST_F(remove_plan_test, a_page_that_one_holder_had_is_removed) {
  begin(1);
  look_up({found({near, far})});
  const auto shares = ask();
  answer(shares[0], {not_found});
  answer(shares[1], {hit});
  plan->end();
  EXPECT_EQ(results[0].status, hit);
}

TEST_F(remove_plan_test, what_the_directory_does_not_find_has_its_reason) {
  constexpr std::array reasons{not_found, unreachable, breaker_open, timed_out};
  begin(reasons.size());
  std::vector<lookup_answer> answers;
  for (const auto why : reasons)
    answers.push_back(without(why));
  look_up(answers);
  EXPECT_TRUE(ask().empty());
  plan->end();
  for (std::size_t i = 0; i < reasons.size(); ++i)
    EXPECT_EQ(results[i].status, reasons[i]);
}

TEST_F(remove_plan_test, holders_that_left_the_view_have_nothing) {
  begin(1);
  look_up({found({stranger})});
  EXPECT_TRUE(ask().empty());
  plan->end();
  EXPECT_EQ(results[0].status, not_found);
}

TEST_F(remove_plan_test, the_own_node_is_asked_for_pages_that_the_directory_does_not_know) {
  begin(2);
  plan->is_here(1);
  look_up({without(not_found), without(not_found)});
  const auto shares = ask();
  ASSERT_EQ(shares.size(), 1u);
  EXPECT_EQ(shares[0].holder, own);
  expect_keys(shares[0], {keys[1]});
  answer(shares[0], {hit});
  plan->end();
  EXPECT_EQ(results[0].status, not_found);
  EXPECT_EQ(results[1].status, hit);
}

TEST_F(remove_plan_test, the_own_node_is_asked_once_for_a_page_that_the_directory_knows_too) {
  begin(1);
  plan->is_here(0);
  look_up({found({near, own})});
  const auto shares = ask();
  ASSERT_EQ(shares.size(), 2u);
  expect_keys(shares[0], keys);
  expect_keys(shares[1], keys);
}

TEST_F(remove_plan_test, an_own_node_that_is_in_no_view_is_not_asked) {
  members.erase(own);
  begin(1);
  plan->is_here(0);
  look_up({without(not_found)});
  EXPECT_TRUE(ask().empty());
}

TEST_F(remove_plan_test, a_page_is_not_removed_when_the_directory_could_not_be_asked) {
  begin(1);
  plan->is_here(0);
  look_up({without(unreachable)});
  const auto shares = ask();
  ASSERT_EQ(shares.size(), 1u);
  answer(shares[0], {hit});
  plan->end();
  EXPECT_EQ(results[0].status, unreachable) << "others may have it";
}

TEST_F(remove_plan_test, a_holder_that_is_silent_or_out_of_reach_may_have_the_page_still) {
  begin(2);
  look_up({found({near, far}), found({near})});
  const auto shares = ask();
  plan->failed(shares[0]);
  answer(shares[1], {hit});
  plan->end();
  EXPECT_EQ(results[0].status, timed_out);
  EXPECT_EQ(results[1].status, timed_out);

  begin(1);
  look_up({found({near})});
  plan->not_asked(ask()[0], unreachable);
  plan->end();
  EXPECT_EQ(results[0].status, unreachable);
}

TEST_F(remove_plan_test, a_record_of_a_page_that_its_holder_has_not_is_told_to_the_directory) {
  begin(2);
  look_up({found({near, far}, 6), found({near})});
  const auto shares = ask();
  answer(shares[0], {not_found, hit});
  answer(shares[1], {hit});
  const auto told = stale_told.take();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].key, keys[0]);
  EXPECT_EQ(told[0].holder, near);
  EXPECT_EQ(told[0].gen, generation{6});
}

TEST_F(remove_plan_test, an_answer_that_is_short_or_strange_removes_nothing) {
  begin(3);
  look_up({found({near}), found({near}), found({near})});
  answer(ask()[0], {stored, hit});
  plan->end();
  EXPECT_EQ(results[0].status, page_status::refused);
  EXPECT_EQ(results[1].status, hit);
  EXPECT_EQ(results[2].status, page_status::refused);
  EXPECT_TRUE(stale_told.take().empty());
}

TEST_F(remove_plan_test, one_holder_of_many_pieces_leaves_time_to_the_others) {
  EXPECT_EQ(remove_plan::patience(2s, /*is_last_piece=*/true), 2s);
  EXPECT_EQ(remove_plan::patience(2s, false), 250ms);
  EXPECT_EQ(remove_plan::patience(400ms, false), 100ms);
  EXPECT_LE(remove_plan::patience(10ms, false), 10ms);
}

// -- tests of removes on all nodes

TEST_F(remove_plan_test, everybody_is_asked_for_everything) {
  begin(2);
  const std::array all{own, near};
  const auto shares = plan->ask_all(all);
  ASSERT_EQ(shares.size(), 2u);
  for (const auto& asked : shares)
    expect_keys(asked, keys);
  answer(shares[0], {hit, not_found});
  answer(shares[1], {not_found, not_found});
  plan->end_everywhere(/*nobody_missing=*/true);
  EXPECT_EQ(results[0].status, hit);
  EXPECT_EQ(results[1].status, not_found);
  EXPECT_TRUE(stale_told.take().empty()) << "the directory named nobody";
}

TEST_F(remove_plan_test, nothing_is_certain_while_a_node_is_missing) {
  begin(1);
  const std::array all{own};
  answer(plan->ask_all(all)[0], {hit});
  plan->end_everywhere(/*nobody_missing=*/false);
  EXPECT_EQ(results[0].status, unreachable);
}

TEST_F(remove_plan_test, without_any_member_nobody_was_asked) {
  begin(1);
  EXPECT_TRUE(plan->ask_all({}).empty());
  plan->end_everywhere(true);
  EXPECT_EQ(results[0].status, unreachable);
}

TEST_F(remove_plan_test, a_member_that_does_not_answer_may_have_any_page) {
  begin(2);
  const std::array all{own, near};
  const auto shares = plan->ask_all(all);
  answer(shares[0], {hit, not_found});
  plan->failed(shares[1]);
  plan->end_everywhere(true);
  EXPECT_EQ(results[0].status, timed_out);
  EXPECT_EQ(results[1].status, timed_out);
}

} // namespace
} // namespace peercache::client
