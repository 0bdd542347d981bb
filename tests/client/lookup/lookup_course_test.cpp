#include "tests/client/lookup/lookup_course_fixture.hpp"

#include "common/circuit_breaker.hpp"

#include <algorithm>
#include <optional>
#include <vector>

namespace peercache::client {
namespace {

TEST_F(lookup_course_test, ends_when_every_key_has_its_answer) {
  begin(4);
  for (auto* share : next())
    EXPECT_TRUE(answer(share, true));
  EXPECT_TRUE(next().empty());
  for (const auto& said : answers)
    EXPECT_EQ(said.status, page_status::hit);
}

TEST_F(lookup_course_test, asks_a_second_owner_where_the_first_one_finds_nothing) {
  begin(1);
  const auto first = next();
  answer(first.at(0), false);
  const auto second = next();
  ASSERT_EQ(second.size(), 1u);
  EXPECT_NE(second[0]->share.owner, first[0]->share.owner);
  answer(second[0], false);
  EXPECT_TRUE(next().empty());
  EXPECT_EQ(answers[0].status, page_status::not_found);
}

TEST_F(lookup_course_test, asks_nobody_without_time) {
  begin(1);
  EXPECT_TRUE(next(999us).empty());
  EXPECT_EQ(answers[0].status, page_status::timed_out);
}

TEST_F(lookup_course_test, goes_no_further_when_the_time_is_up) {
  begin(1);
  fail(next().at(0));
  EXPECT_TRUE(next(0ms).empty()) << "there is another owner";
  EXPECT_EQ(answers[0].status, page_status::timed_out);
}

TEST_F(lookup_course_test, an_owner_without_a_link_is_out_of_reach) {
  linked.clear();
  begin(1);
  EXPECT_TRUE(next().empty());
  EXPECT_EQ(answers[0].status, page_status::unreachable);
}

TEST_F(lookup_course_test, an_owner_that_failed_is_not_asked_again_in_the_call) {
  begin(1);
  const auto first = next();
  const auto failed = first.at(0)->share.owner;
  fail(first[0]);
  begin(1); // A look-up for the next piece of the same call.
  const auto again = next();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_NE(again[0]->share.owner, failed);
}

TEST_F(lookup_course_test, an_owner_that_failed_is_asked_again_in_the_next_call) {
  const auto failed = first_owner_fails(1);
  begin_call();
  begin(1);
  EXPECT_EQ(next().at(0)->share.owner, failed);
}

TEST_F(lookup_course_test, an_owner_that_failed_in_many_calls_is_left_alone) {
  const auto failed = first_owner_fails(3);
  begin_call();
  begin(1);
  const auto shares = next();
  ASSERT_EQ(shares.size(), 1u);
  EXPECT_NE(shares[0]->share.owner, failed);
}

TEST_F(lookup_course_test, a_key_whose_only_owner_is_left_alone_says_so) {
  for (int i = 0; i < 3; ++i) {
    begin_call();
    begin(1, /*replicas=*/1);
    fail(next().at(0));
  }
  begin_call();
  begin(1, 1);
  EXPECT_TRUE(next().empty());
  EXPECT_EQ(answers[0].status, page_status::breaker_open);
}

TEST_F(lookup_course_test, an_owner_that_was_left_alone_is_tried_after_a_while_and_trusted_again) {
  const auto failed = first_owner_fails(3);
  now += 1min;
  begin_call();
  begin(1);
  const auto shares = next();
  ASSERT_EQ(shares.size(), 1u);
  EXPECT_EQ(shares[0]->share.owner, failed);
  EXPECT_TRUE(answer(shares[0], true));
  EXPECT_EQ(health.open(), 0u);
}

TEST_F(lookup_course_test, the_call_that_tries_an_owner_asks_it_for_all_its_keys) {
  const auto failed = first_owner_fails(3);
  now += 1min;
  begin_call();
  begin(1);
  EXPECT_EQ(next().at(0)->share.owner, failed);
  begin(1); // One more look-up of the call, whose probe of the owner is still unanswered.
  EXPECT_EQ(next().at(0)->share.owner, failed) << "it is this call that tries it";
  begin_call();
  begin(1);
  EXPECT_NE(next().at(0)->share.owner, failed) << "others wait for what comes of it";
}

TEST_F(lookup_course_test, an_answer_that_cannot_be_read_is_a_failure) {
  begin(1, 1);
  const auto shares = next();
  EXPECT_FALSE(course->answered(*shares.at(0), "\xff", now));
  EXPECT_TRUE(next().empty());
  EXPECT_EQ(answers[0].status, page_status::unreachable);
  begin(1, 1);
  EXPECT_TRUE(next().empty()) << "it is not asked again in this call";
}

TEST_F(lookup_course_test, a_newer_view_is_wanted_once_a_call) {
  begin(1);
  EXPECT_FALSE(course->wants_view());
  for (int look_up = 0; look_up < 2; ++look_up) {
    begin(1);
    const auto shares = next();
    std::string said;
    directory::append_not_mine(said, {1, 2});
    EXPECT_TRUE(course->answered(*shares.at(0), said, now));
    EXPECT_EQ(course->wants_view(), look_up == 0);
    EXPECT_FALSE(course->wants_view());
  }
}

TEST_F(lookup_course_test, an_owner_that_is_silent_costs_some_milliseconds) {
  begin(1);
  auto* silent = next().at(0);
  EXPECT_TRUE(next().empty()) << "there is time yet";
  EXPECT_LE(course->next_look() - now, 15ms);
  now = course->next_look();
  const auto hedged = next();
  ASSERT_EQ(hedged.size(), 1u);
  EXPECT_NE(hedged[0]->share.owner, silent->share.owner);
  EXPECT_TRUE(answer(hedged[0], true));
  EXPECT_TRUE(next().empty());
  EXPECT_TRUE(course->is_over());
  EXPECT_FALSE(silent->open);
  EXPECT_EQ(answers[0].status, page_status::hit);
}

TEST_F(lookup_course_test, the_first_good_answer_counts_whoever_gives_it) {
  begin(1);
  auto* slow = next().at(0);
  now = course->next_look();
  auto* hedged = next().at(0);
  EXPECT_TRUE(answer(slow, true));
  EXPECT_TRUE(next().empty());
  EXPECT_FALSE(course->is_over()) << "the other question is not overdue";
  now = course->next_look();
  EXPECT_TRUE(next().empty());
  EXPECT_TRUE(course->is_over());
  EXPECT_FALSE(hedged->open);
  EXPECT_EQ(answers[0].status, page_status::hit);
}

TEST_F(lookup_course_test, an_owner_that_was_silent_is_not_asked_for_the_next_piece) {
  begin(1);
  const auto silent = next().at(0)->share.owner;
  now = course->next_look();
  EXPECT_TRUE(answer(next().at(0), true));
  EXPECT_TRUE(next().empty());
  begin(1);
  EXPECT_NE(next().at(0)->share.owner, silent);
}

TEST_F(lookup_course_test, another_opinion_is_waited_for_some_time_and_the_only_answer_to_the_end) {
  begin(1);
  const auto until = now + 2s;
  ASSERT_EQ(next(2s).size(), 1u);
  now = course->next_look();
  auto* hedged = next(until - now).at(0);
  EXPECT_TRUE(answer(hedged, false));
  EXPECT_TRUE(next(until - now).empty());
  EXPECT_FALSE(course->is_over()) << "the first owner may have heard of it";
  now = course->next_look();
  EXPECT_LE(until - now, 2s - 11ms);
  EXPECT_GE(until - now, 2s - 13ms);
  EXPECT_TRUE(next(until - now).empty());
  EXPECT_EQ(answers[0].status, page_status::not_found);

  begin_call();
  begin(1, /*replicas=*/1);
  auto* only = next(until - now).at(0);
  now = course->next_look();
  EXPECT_TRUE(next(until - now).empty());
  EXPECT_EQ(course->next_look(), until);
  now = until;
  EXPECT_TRUE(next(0ms).empty());
  EXPECT_FALSE(only->open);
  EXPECT_EQ(answers[0].status, page_status::timed_out);
}

TEST_F(lookup_course_test, an_owner_that_is_asked_again_while_it_is_silent_has_no_more_time) {
  begin(64);
  const auto begun = now, until = now + 2s;
  const auto first = next(2s);
  const auto silent = first.at(0)->share.owner;
  for (auto* asked : first)
    if (asked->share.owner != silent) {
      EXPECT_TRUE(answer(asked, false));
    }
  std::size_t asked_again = 0;
  while (!course->is_over()) {
    const auto due = next(until - now);
    for (auto* asked : due)
      if (asked->share.owner == silent)
        ++asked_again;
      else
        EXPECT_TRUE(answer(asked, false));
    if (due.empty() && !course->is_over())
      now = course->next_look();
  }
  EXPECT_GT(asked_again, 0u) << "other owners do not have the keys that it owns, too";
  EXPECT_LE(now - begun, 13ms);
  EXPECT_TRUE(health.is_silent(linked[silent], now)) << "its silence is as long as the wait";
  for (const auto& said : answers)
    EXPECT_EQ(said.status, page_status::not_found);
}

TEST_F(lookup_course_test, an_owner_that_answers_late_has_its_time_for_what_else_it_was_asked) {
  begin(64);
  const auto until = now + 320ms;
  const auto first = next(320ms);
  auto* late = first.at(0);
  for (auto* asked : first)
    if (asked != late) {
      EXPECT_TRUE(answer(asked, false));
    }
  lookup_course::question* more = nullptr;
  while (more == nullptr && !course->is_over()) {
    const auto due = next(until - now);
    for (auto* asked : due)
      if (asked->share.owner == late->share.owner)
        more = asked;
      else
        EXPECT_TRUE(answer(asked, false));
    if (due.empty())
      now = course->next_look();
  }
  ASSERT_NE(more, nullptr);
  now = more->opinion_until - 1ms;
  EXPECT_TRUE(answer(late, false));
  now += 5ms;
  next(until - now);
  EXPECT_TRUE(more->open) << "the owner has answered, and may have these keys";
  EXPECT_FALSE(health.is_silent(late->owner, now));
}

TEST_F(lookup_course_test, an_owner_that_was_silent_before_is_waited_for_less) {
  begin(1);
  const auto silent_owner = next().at(0)->owner;
  const auto first_wait = course->next_look() - now;
  now = course->next_look();
  EXPECT_TRUE(answer(next().at(0), true));
  EXPECT_TRUE(next().empty());
  begin_call();
  begin(1);
  auto* again = next().at(0);
  ASSERT_EQ(again->owner, silent_owner);
  EXPECT_LE(course->next_look() - now, first_wait / 2);
  EXPECT_LE(again->opinion_until - now, 11ms);
  EXPECT_TRUE(answer(again, true));
  EXPECT_TRUE(next().empty());
  begin_call();
  begin(1);
  EXPECT_EQ(next().size(), 1u);
  EXPECT_EQ(course->next_look() - now, first_wait) << "it has answered";
}

TEST_F(lookup_course_test, owners_that_are_only_slow_are_asked_for_the_next_piece) {
  const auto late = [this] { return course->next_look(); };
  begin(2);
  const auto slow = next();
  now = late();
  const auto hedged = next();
  ASSERT_FALSE(hedged.empty());
  for (auto* asked : slow)
    EXPECT_TRUE(answer(asked, true));
  while (!course->is_over()) {
    EXPECT_TRUE(next().empty());
    now = course->is_over() ? now : late();
  }
  begin(64); // Enough keys for all owners, two of which were slow.
  std::size_t keys_asked = 0;
  for (auto* asked : next())
    keys_asked += asked->share.indices.size();
  EXPECT_EQ(keys_asked, 64u);
}

TEST_F(lookup_course_test, an_owner_whom_another_one_outran_is_not_doubted_for_ever) {
  begin(1);
  const auto owner = next().at(0)->owner;
  now = course->next_look();
  EXPECT_TRUE(answer(next().at(0), true));
  EXPECT_TRUE(next().empty());
  // In each call the owner takes 5 ms, other owners 1 ms.
  for (int calls = 0; calls < 1000; ++calls) {
    begin_call();
    begin(1);
    auto* asked = next().at(0);
    ASSERT_EQ(asked->owner, owner);
    if (course->next_look() - now < 5ms) {
      now = course->next_look();
      asked = next().at(0);
      now += 1ms;
    } else {
      now += 5ms;
    }
    EXPECT_TRUE(answer(asked, true));
    EXPECT_TRUE(next().empty());
  }
  EXPECT_EQ(health.open(), 0u);
  EXPECT_FALSE(health.is_silent(owner, now));
}

TEST_F(lookup_course_test, a_large_question_may_take_longer) {
  begin(4096, 1);
  const auto shares = next();
  ASSERT_EQ(shares.size(), nodes_count);
  for (auto* asked : shares)
    EXPECT_GE(asked->overdue_at - now, 10ms + asked->share.indices.size() * 1us);
}

TEST_F(lookup_course_test, has_a_bound_whatever_the_owners_say) {
  begin(8);
  int rounds = 0;
  for (auto shares = next(); !shares.empty(); shares = next()) {
    ++rounds;
    for (auto* share : shares)
      rounds % 2 == 0 ? fail(share) : void(answer(share, false));
  }
  EXPECT_LE(rounds, lookup_plan::rounds_max);
  for (const auto& said : answers)
    EXPECT_NE(said.status, page_status::pending);
}

} // namespace
} // namespace peercache::client
