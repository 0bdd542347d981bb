#include "tests/client/calls/read_plan_fixture.hpp"

#include <array>

namespace peercache::client {
namespace {

using enum page_status;

/// Statuses of a read after which the plan looks for the page once more.
constexpr std::array stale_statuses{stale, wrong_key, holder_gone};
/// Statuses of a read that say nothing against the directory's record.
constexpr std::array final_statuses{
    corrupt, timed_out, unreachable, breaker_open, page_status::refused, bad_size, closed};

// -- tests of the plan's first look

TEST_F(read_plan_test, a_page_of_no_length_or_too_many_parts_is_refused_and_not_looked_for) {
  begin({0, page_bytes, limits::page_bytes_max + 1});
  expect_end(0, bad_size);
  expect_end(2, bad_size);
  EXPECT_EQ(results[2].length_bytes, 0u);
  EXPECT_EQ(plan->keys_missing(), std::vector{key(1)});
}

TEST_F(read_plan_test, a_call_without_pages_is_over_at_once) {
  begin(0);
  EXPECT_EQ(plan->missing(), 0u);
  EXPECT_TRUE(plan->take_round().empty());
  EXPECT_FALSE(plan->look_again());
}

TEST_F(read_plan_test, a_page_of_the_own_host_is_read_there_and_asked_for_nowhere) {
  begin(1);
  const auto missing = plan->take_missing();
  ASSERT_EQ(missing, std::vector{0u});
  plan->looked_at_own_host(0, at(own, 2));
  EXPECT_TRUE(plan->keys_missing().empty());
  const auto page = only_read();
  EXPECT_TRUE(plan->is_own(page));
  ASSERT_TRUE(plan->may_copy(page, /*late=*/false));
  plan->copied(page, hit);
  EXPECT_FALSE(plan->look_again());
  expect_end(0, hit, page_origin::own_host);
}

TEST_F(read_plan_test, what_the_own_host_has_not_is_still_missing) {
  begin(2);
  for (const auto index : plan->take_missing())
    plan->looked_at_own_host(index, index == 0 ? std::nullopt : std::optional(at(own, 2)));
  EXPECT_EQ(plan->keys_missing(), std::vector{key(0)});
}

TEST_F(read_plan_test, a_remembered_place_is_read_without_the_directory) {
  locations.store(key(0), at(near, 4));
  begin(2);
  EXPECT_EQ(plan->take_remembered(), 1u);
  EXPECT_EQ(plan->keys_missing(), std::vector{key(1)});
  const auto page = only_read();
  EXPECT_EQ(page.location, at(near, 4));
  EXPECT_FALSE(plan->is_own(page));
  read(page, hit);
  expect_end(0, hit, page_origin::other_host);
}

TEST_F(read_plan_test, a_remembered_place_of_another_length_is_not_read) {
  locations.store(key(0), at(near, 4, 64));
  begin(1);
  EXPECT_EQ(plan->take_remembered(), 0u);
  EXPECT_EQ(plan->missing(), 1u);
}

TEST_F(read_plan_test, a_remembered_place_of_a_process_that_left_the_view_is_not_believed) {
  locations.store(key(0), at(stranger, 4));
  begin(1);
  EXPECT_EQ(plan->take_remembered(), 0u);
  EXPECT_EQ(plan->missing(), 1u);
}

TEST_F(read_plan_test, a_remembered_place_is_read_in_the_first_look_only) {
  look_twice(at(near, 4), stale);
  locations.store(key(0), at(far, 6));
  EXPECT_EQ(plan->take_remembered(), 0u);
  EXPECT_EQ(plan->missing(), 1u);
}

TEST_F(read_plan_test, a_place_that_the_directory_names_is_remembered) {
  begin(1);
  look_up({found({at(near, 4)})});
  EXPECT_EQ(locations.find(key(0)), at(near, 4));
}

TEST_F(read_plan_test, a_place_in_the_own_pool_is_not_remembered) {
  begin(1);
  look_up({found({at(own, 4)})});
  EXPECT_FALSE(locations.find(key(0)));
}

TEST_F(read_plan_test, a_place_in_the_pool_of_an_own_node_that_left_is_not_remembered) {
  left = near;
  begin(1);
  look_up({found({at(near, 4)})});
  EXPECT_FALSE(locations.find(key(0)));
}

TEST_F(read_plan_test, a_place_on_the_own_disk_is_remembered) {
  begin(1);
  look_up({found({on_disk(own)})});
  EXPECT_EQ(locations.find(key(0)), on_disk(own));
}

TEST_F(read_plan_test, what_the_directory_does_not_find_has_its_reason) {
  constexpr std::array reasons{not_found, unreachable, breaker_open, timed_out, closed};
  begin(reasons.size());
  std::vector<lookup_answer> answers;
  for (const auto why : reasons)
    answers.push_back(without(why));
  look_up(answers);
  EXPECT_TRUE(plan->take_round().empty());
  EXPECT_FALSE(plan->look_again()) << "the directory was asked just now";
  for (std::size_t i = 0; i < reasons.size(); ++i)
    expect_end(i, reasons[i]);
}

TEST_F(read_plan_test, of_several_places_the_one_of_the_wanted_length_is_read) {
  begin(1);
  look_up({found({at(near, 4, 64), at(far, 6)})});
  EXPECT_EQ(only_read().location, at(far, 6));
}

// -- tests of how a read may end

TEST_F(read_plan_test, a_hit_says_what_it_came_over) {
  constexpr std::array ways{page_origin::other_host, page_origin::other_host_rdma};
  begin(ways.size());
  look_up({found({at(near, 4)}), found({at(near, 6)})});
  const auto round = plan->take_round();
  for (std::size_t i = 0; i < ways.size(); ++i)
    read(round[i], hit, ways[i]);
  EXPECT_FALSE(plan->look_again());
  for (std::size_t i = 0; i < ways.size(); ++i)
    expect_end(i, hit, ways[i]);
}

TEST_F(read_plan_test, a_page_that_could_not_be_read_is_a_miss_and_its_place_is_forgotten) {
  for (const auto why : final_statuses) {
    begin(1);
    look_up({found({at(near, 4)})});
    read(only_read(), why);
    EXPECT_FALSE(plan->look_again()) << to_string(why);
    expect_end(0, why);
    EXPECT_FALSE(locations.find(key(0))) << to_string(why);
    EXPECT_TRUE(stale_records_told().empty()) << to_string(why);
  }
}

TEST_F(read_plan_test, a_place_that_was_learnt_meanwhile_is_not_forgotten) {
  begin(1);
  look_up({found({at(near, 4)})});
  const auto page = only_read();
  locations.store(key(0), at(near, 8)); // Another call stores a newer place before this read ends.
  read(page, stale);
  EXPECT_EQ(locations.find(key(0)), at(near, 8));
}

TEST_F(read_plan_test, a_place_that_was_out_of_date_is_looked_for_once_more) {
  for (const auto why : stale_statuses) {
    look_twice(at(near, 4), why);
    EXPECT_EQ(plan->keys_missing(), std::vector{key(0)}) << to_string(why);
    EXPECT_TRUE(stale_records_told().empty()) << "the record may have been a remembered one";
    look_up({found({at(far, 6)})});
    read(only_read(), hit);
    EXPECT_FALSE(plan->look_again());
    expect_end(0, hit, page_origin::other_host);
  }
}

TEST_F(read_plan_test, an_own_page_that_was_overwritten_is_looked_for_once_more) {
  begin(1);
  plan->take_missing();
  plan->looked_at_own_host(0, at(own, 2));
  const auto page = only_read();
  ASSERT_TRUE(plan->may_copy(page, false));
  plan->copied(page, stale);
  EXPECT_TRUE(plan->look_again());
  EXPECT_EQ(plan->keys_missing(), std::vector{key(0)});
}

TEST_F(read_plan_test, where_an_own_page_was_dropped_as_a_duplicate_another_holder_is_preferred) {
  drop_an_own_page_while_it_is_read();
  plan->looked_at_own_host(0, at(own, 7));
  EXPECT_TRUE(plan->ask_holders().empty());
  EXPECT_EQ(plan->keys_missing(), std::vector{key(0)});
  look_up({found({at(far, 6)})});
  const auto page = only_read();
  EXPECT_EQ(page.location, at(far, 6));
  read(page, hit);
  EXPECT_FALSE(plan->look_again());
  expect_end(0, hit, page_origin::other_host);
}

TEST_F(read_plan_test, where_nobody_else_has_a_page_the_own_one_is_read) {
  for (const auto why : {not_found, unreachable, timed_out}) {
    drop_an_own_page_while_it_is_read();
    plan->looked_at_own_host(0, at(own, 7));
    look_up({without(why)});
    const auto page = only_read();
    EXPECT_EQ(page.location, at(own, 7));
    ASSERT_TRUE(plan->may_copy(page, false));
    plan->copied(page, hit);
    EXPECT_FALSE(plan->look_again());
    expect_end(0, hit, page_origin::own_host);
  }
}

TEST_F(read_plan_test, where_the_directory_names_the_own_host_the_page_is_read_where_it_is_now) {
  drop_an_own_page_while_it_is_read();
  plan->looked_at_own_host(0, at(own, 7));
  look_up({found({at(own, 5)})});
  EXPECT_EQ(only_read().location, at(own, 7));
}

TEST_F(read_plan_test, a_page_that_the_own_host_drops_each_time_is_read_at_the_other_host) {
  drop_an_own_page_while_it_is_read();
  // A later copy of the page is published, but the directory may still call this copy a duplicate.
  plan->looked_at_own_host(0, at(own, 8));
  look_up({found({at(own, 8), at(far, 6)})});
  EXPECT_EQ(only_read().location, at(far, 6));
}

TEST_F(read_plan_test, a_page_is_looked_for_twice_and_no_more) {
  for (const auto first : stale_statuses)
    for (const auto second : stale_statuses) {
      look_twice(at(near, 4), first);
      plan->ask_holders();
      look_up({found({at(far, 6)})});
      read(only_read(), second);
      EXPECT_FALSE(plan->look_again());
      expect_end(0, second);
      stale_records_told();
    }
  EXPECT_EQ(read_plan::looks_max, 2);
}

TEST_F(read_plan_test, a_record_that_its_holder_denied_twice_is_told_to_the_directory) {
  look_twice(at(near, 4), stale);
  plan->ask_holders();
  look_up({found({at(far, 6)})});
  read(only_read(), stale);
  EXPECT_FALSE(plan->look_again());
  const auto told = stale_records_told();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].key, key(0));
  EXPECT_EQ(told[0].holder, far);
  EXPECT_EQ(told[0].gen, generation{6});
}

TEST_F(read_plan_test, a_filling_that_was_never_published_is_told_to_nobody) {
  look_twice(at(near, 4), stale);
  plan->ask_holders();
  look_up({found({at(far, 7)})});
  read(only_read(), stale);
  EXPECT_FALSE(plan->look_again());
  EXPECT_TRUE(stale_records_told().empty());
}

// -- tests of the deadline

TEST_F(read_plan_test, an_own_page_is_not_copied_after_the_deadline) {
  begin(1);
  plan->take_missing();
  plan->looked_at_own_host(0, at(own, 2));
  EXPECT_FALSE(plan->may_copy(only_read(), /*late=*/true));
  EXPECT_FALSE(plan->look_again());
  expect_end(0, timed_out);
}

TEST_F(read_plan_test, a_deadline_that_passes_during_a_copy_says_nothing_against_the_place) {
  members.insert(own);
  locations.store(key(0), at(own, 2)); // An earlier process of this host left this place.
  begin(1);
  EXPECT_EQ(plan->take_remembered(), 1u);
  const auto page = only_read();
  ASSERT_TRUE(plan->may_copy(page, false));
  plan->copied(page, timed_out);
  EXPECT_FALSE(plan->look_again());
  expect_end(0, timed_out);
  EXPECT_TRUE(locations.find(key(0)));
}

TEST_F(read_plan_test, an_own_page_of_another_length_is_of_bad_size) {
  begin(1);
  look_up({found({at(own, 2, 64)})});
  EXPECT_FALSE(plan->may_copy(only_read(), false));
  EXPECT_FALSE(plan->look_again());
  expect_end(0, bad_size);
}

TEST_F(read_plan_test, the_deadline_comes_before_the_length) {
  begin(1);
  look_up({found({at(own, 2, 64)})});
  EXPECT_FALSE(plan->may_copy(only_read(), /*late=*/true));
  expect_end(0, timed_out);
}

// -- tests of processes that nothing may be read from

TEST_F(read_plan_test, nothing_is_read_from_a_process_that_is_not_in_the_view) {
  begin(1);
  look_up({found({at(stranger, 4)})}); // As by a newer view than the plan's.
  EXPECT_TRUE(plan->take_round().empty());
  ASSERT_TRUE(plan->look_again());
  members.insert(stranger);
  follow();
  EXPECT_TRUE(plan->ask_holders().empty()) << "it denied nothing";
  look_up({found({at(stranger, 4)})});
  read(only_read(), hit);
  expect_end(0, hit, page_origin::other_host);
}

TEST_F(read_plan_test, who_is_in_no_view_twice_has_left_and_is_told_of_to_nobody) {
  begin(1);
  look_up({found({at(stranger, 4)})});
  EXPECT_TRUE(plan->take_round().empty());
  ASSERT_TRUE(plan->look_again());
  follow();
  look_up({found({at(stranger, 4)})});
  EXPECT_TRUE(plan->take_round().empty());
  EXPECT_FALSE(plan->look_again());
  expect_end(0, holder_gone);
  EXPECT_TRUE(stale_records_told().empty()) << "the own view may be the older one";
}

TEST_F(read_plan_test, nothing_is_read_from_the_own_node_once_it_has_left) {
  left = near;
  begin(1);
  look_up({found({at(near, 4)})});
  EXPECT_TRUE(plan->take_round().empty());
  EXPECT_TRUE(plan->look_again());
}

TEST_F(read_plan_test, a_page_of_another_length_is_not_asked_for) {
  begin(1);
  look_up({found({at(near, 4, 64)})});
  EXPECT_TRUE(plan->take_round().empty());
  EXPECT_FALSE(plan->look_again());
  expect_end(0, bad_size);
  EXPECT_FALSE(locations.find(key(0)));
}

TEST_F(read_plan_test, without_an_own_pool_every_page_comes_from_a_peer) {
  begin(1);
  readers_cluster known;
  known.is_member = [](const auto&) { return true; };
  plan->follow(known);
  look_up({found({at(own, 4)})});
  EXPECT_FALSE(plan->is_own(only_read()));
}

// -- tests of a directory that answers key by key

TEST_F(read_plan_test, a_page_is_read_before_the_directory_has_answered_for_others) {
  begin(2);
  EXPECT_EQ(plan->ask_directory(), (std::vector{key(0), key(1)}));
  take_answer(1, found({at(far, 4)}));
  EXPECT_EQ(plan->located_bytes(), page_bytes);
  read(only_read(), hit);
  expect_end(1, hit, page_origin::other_host);
  take_answer(0, without(not_found));
  EXPECT_FALSE(plan->look_again());
  expect_end(0, not_found);
}

TEST_F(read_plan_test, a_second_answer_about_a_key_changes_nothing) {
  begin(2);
  plan->ask_directory();
  for (const auto& holder : {far, near})
    take_answer(1, found({at(holder, 4)}));
  const auto page = only_read();
  EXPECT_EQ(page.location.holder, far);
  read(page, stale);
  take_answer(1, found({at(near, 4)}));
  EXPECT_EQ(plan->located_bytes(), 0u)
      << "what was stale is looked for when all keys have their answers";
  take_answer(0, without(not_found));
  ASSERT_TRUE(plan->look_again());
  EXPECT_EQ(plan->keys_missing(), std::vector{key(1)});
}

} // namespace
} // namespace peercache::client
