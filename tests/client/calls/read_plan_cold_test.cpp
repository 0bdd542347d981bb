// Tests of pages that are not where the directory says: they are on a disk, or in another slot of
// the same holder.

#include "tests/client/calls/read_plan_fixture.hpp"

#include "link/protocol/disk_wire.hpp"

namespace peercache::client {
namespace {

using enum page_status;

class read_plan_cold_test : public read_plan_test {
protected:
  /// Expects one question, to this holder about these keys.
  static void expect_asked(const promote_plan& asked, const incarnation& holder,
                           const std::vector<page_key>& keys) {
    ASSERT_EQ(asked.shares().size(), 1u);
    const auto& share = asked.shares()[0];
    EXPECT_EQ(share.holder, holder);
    ASSERT_EQ(share.indices.size(), keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i)
      EXPECT_EQ(link::record_at<link::promoted_page>(share.request, i).key, keys[i]);
  }

  void begin_cold(const directory::page_location& place) {
    begin(1);
    look_up({found({place})});
  }
  /// Brings the plan to its second look at page 0, in which it also asks the page's holder.
  void look_twice_asking(std::uint64_t gen) {
    look_twice(at(near, gen), stale);
    expect_asked(plan->ask_holders(), near, {key(0)});
  }
};

TEST_F(read_plan_cold_test, a_page_on_a_disk_is_promoted_and_not_read) {
  begin_cold(on_disk(near));
  expect_asked(plan->take_cold(), near, {key(0)});
  EXPECT_TRUE(plan->take_round().empty());
}

TEST_F(read_plan_cold_test, a_page_on_the_own_disk_is_promoted_too) {
  begin_cold(on_disk(own));
  expect_asked(plan->take_cold(), own, {key(0)});
  EXPECT_TRUE(plan->take_round().empty());
  plan->promoted({0, at(own, 8)}, false);
  const auto page = only_read();
  ASSERT_TRUE(plan->is_own(page));
  ASSERT_TRUE(plan->may_copy(page, false));
  plan->copied(page, hit);
  expect_end(0, hit, page_origin::disk);
}

TEST_F(read_plan_cold_test, each_disk_is_asked_in_growing_questions) {
  begin(4);
  look_up({found({on_disk(near)}), found({on_disk(far)}), found({on_disk(near)}),
           found({on_disk(near)})});
  const auto asked = plan->take_cold();
  ASSERT_EQ(asked.shares().size(), 3u);
  EXPECT_EQ(asked.shares()[0].indices, std::vector<std::uint32_t>{0});
  EXPECT_EQ(asked.shares()[1].indices, std::vector<std::uint32_t>{1});
  EXPECT_EQ(asked.shares()[2].indices, (std::vector<std::uint32_t>{2, 3}));
}

TEST_F(read_plan_cold_test, pages_in_memory_are_read_while_others_are_promoted) {
  begin(2);
  look_up({found({on_disk(near)}), found({at(far, 4)})});
  EXPECT_FALSE(plan->take_cold().empty());
  const auto page = only_read();
  EXPECT_EQ(page.index, 1u);
  read(page, hit);
  plan->promoted({0, at(near, 8)}, false);
  read(only_read(), hit, page_origin::other_host_rdma);
  EXPECT_FALSE(plan->look_again());
  expect_end(0, hit, page_origin::disk);
  expect_end(1, hit, page_origin::other_host);
}

TEST_F(read_plan_cold_test, a_page_of_another_length_on_a_disk_is_not_asked_for) {
  begin_cold(on_disk(near, 64));
  EXPECT_TRUE(plan->take_cold().empty());
  EXPECT_TRUE(plan->take_round().empty());
  EXPECT_FALSE(plan->look_again());
  expect_end(0, bad_size);
}

TEST_F(read_plan_cold_test, the_place_of_a_promoted_page_is_remembered) {
  begin_cold(on_disk(near));
  plan->take_cold();
  plan->promoted({0, at(near, 8)}, false);
  EXPECT_EQ(locations.find(key(0)), at(near, 8));
}

TEST_F(read_plan_cold_test, what_a_disk_has_no_more_is_looked_for_once_more) {
  begin_cold(on_disk(near));
  plan->take_cold();
  plan->promoted({0, std::nullopt}, false);
  EXPECT_FALSE(locations.find(key(0)));
  ASSERT_TRUE(plan->look_again());
  follow();
  EXPECT_TRUE(plan->ask_holders().empty()) << "it was asked just now";
  look_up({found({on_disk(near)})});
  plan->take_cold();
  plan->promoted({0, std::nullopt}, false);
  EXPECT_FALSE(plan->look_again());
  expect_end(0, stale);
  EXPECT_TRUE(stale_records_told().empty()) << "a disk that was too slow has it still";
}

TEST_F(read_plan_cold_test, what_a_disk_did_not_bring_in_time_is_not_looked_for_again) {
  begin_cold(on_disk(near));
  plan->take_cold();
  plan->promoted({0, std::nullopt}, /*late=*/true);
  EXPECT_FALSE(plan->look_again());
  expect_end(0, timed_out);
}

TEST_F(read_plan_cold_test, a_promoted_page_that_was_evicted_again_is_looked_for_once_more) {
  begin_cold(on_disk(near));
  plan->take_cold();
  plan->promoted({0, at(near, 8)}, false);
  read(only_read(), stale);
  ASSERT_TRUE(plan->look_again());
  follow();
  expect_asked(plan->ask_holders(), near, {key(0)});
}

TEST_F(read_plan_cold_test, a_page_that_was_read_elsewhere_in_the_end_did_not_come_from_the_disk) {
  begin_cold(on_disk(near));
  plan->take_cold();
  plan->promoted({0, at(near, 8)}, false);
  read(only_read(), stale);
  ASSERT_TRUE(plan->look_again());
  follow();
  plan->ask_holders();
  look_up({found({at(far, 4)})});
  read(only_read(), hit);
  plan->told_by_holder({0, std::nullopt}, false);
  EXPECT_FALSE(plan->look_again());
  expect_end(0, hit, page_origin::other_host);
}

TEST_F(read_plan_cold_test, a_holder_that_is_no_longer_in_a_view_brings_nothing) {
  begin_cold(on_disk(near));
  plan->take_cold();
  members.erase(near);
  plan->promoted({0, at(near, 8)}, false);
  EXPECT_TRUE(plan->take_round().empty());
  EXPECT_TRUE(plan->look_again());
}

// -- tests of questions to a holder that denied a page

TEST_F(read_plan_cold_test, nobody_is_asked_in_the_first_look) {
  begin(1);
  EXPECT_TRUE(plan->ask_holders().empty());
}

TEST_F(read_plan_cold_test, a_holder_that_denied_a_page_is_asked_where_it_has_it) {
  for (const auto why : {stale, wrong_key}) {
    look_twice(at(near, 4), why);
    expect_asked(plan->ask_holders(), near, {key(0)});
  }
}

TEST_F(read_plan_cold_test, a_holder_that_is_gone_is_not_asked) {
  look_twice(at(near, 4), holder_gone);
  EXPECT_TRUE(plan->ask_holders().empty());
}

TEST_F(read_plan_cold_test, nobody_is_asked_for_what_the_own_host_has_by_now) {
  look_twice(at(near, 4), stale);
  plan->take_missing();
  plan->looked_at_own_host(0, at(own, 6));
  EXPECT_TRUE(plan->ask_holders().empty());
  EXPECT_TRUE(plan->keys_missing().empty());
  const auto page = only_read();
  ASSERT_TRUE(plan->may_copy(page, false));
  plan->copied(page, hit);
  EXPECT_FALSE(plan->look_again());
  expect_end(0, hit, page_origin::own_host);
}

TEST_F(read_plan_cold_test,
       its_page_is_read_where_the_holder_says_and_not_where_the_directory_does) {
  look_twice_asking(4);
  look_up({found({at(near, 4)})});
  EXPECT_TRUE(plan->take_round().empty()) << "the holder denied exactly that";
  plan->told_by_holder({0, at(near, 8)}, false);
  const auto page = only_read();
  EXPECT_EQ(page.location, at(near, 8));
  read(page, hit);
  EXPECT_FALSE(plan->look_again());
  expect_end(0, hit, page_origin::disk);
  EXPECT_EQ(locations.find(key(0)), at(near, 8));
  EXPECT_TRUE(stale_records_told().empty());
}

TEST_F(read_plan_cold_test, a_record_that_the_holder_denies_again_is_told_to_the_directory) {
  look_twice_asking(4);
  look_up({found({at(near, 4)})});
  plan->told_by_holder({0, std::nullopt}, false);
  EXPECT_FALSE(plan->look_again());
  expect_end(0, stale);
  EXPECT_FALSE(locations.find(key(0)));
  const auto told = stale_records_told();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].holder, near);
  EXPECT_EQ(told[0].gen, generation{4}) << "the filling that it denied";
}

TEST_F(read_plan_cold_test, a_holder_that_did_not_answer_in_time_denied_nothing) {
  look_twice_asking(4);
  look_up({found({at(near, 4)})});
  plan->told_by_holder({0, std::nullopt}, /*late=*/true);
  EXPECT_FALSE(plan->look_again());
  expect_end(0, timed_out);
  EXPECT_TRUE(stale_records_told().empty());
}

TEST_F(read_plan_cold_test, another_place_of_the_directory_is_read_whatever_the_holder_says) {
  for (const auto& said : {std::optional(at(near, 8)), std::optional<directory::page_location>{}}) {
    look_twice_asking(4);
    look_up({found({at(near, 4), at(far, 6)})});
    const auto page = only_read();
    EXPECT_EQ(page.location.holder, far);
    read(page, hit);
    plan->told_by_holder({0, said}, false);
    EXPECT_TRUE(plan->take_round().empty());
    EXPECT_FALSE(plan->look_again());
    expect_end(0, hit, page_origin::other_host);
  }
}

TEST_F(read_plan_cold_test, a_page_that_the_directory_forgot_is_read_where_the_holder_says) {
  for (const auto why : {not_found, unreachable, timed_out}) {
    look_twice_asking(4);
    look_up({without(why)});
    plan->told_by_holder({0, at(near, 8)}, false);
    read(only_read(), hit);
    EXPECT_FALSE(plan->look_again());
    expect_end(0, hit, page_origin::disk);
  }
}

TEST_F(read_plan_cold_test, a_page_that_neither_has_is_what_the_directory_says) {
  for (const auto why : {not_found, unreachable, breaker_open}) {
    look_twice_asking(4);
    look_up({without(why)});
    plan->told_by_holder({0, std::nullopt}, false);
    EXPECT_FALSE(plan->look_again());
    expect_end(0, why);
    EXPECT_TRUE(stale_records_told().empty()) << "the directory believes in nothing";
  }
}

TEST_F(read_plan_cold_test, a_page_that_its_holder_brought_and_lost_again_is_a_miss) {
  look_twice_asking(4);
  look_up({found({at(near, 4)})});
  plan->told_by_holder({0, at(near, 8)}, false);
  read(only_read(), stale);
  EXPECT_FALSE(plan->look_again());
  expect_end(0, stale);
}

TEST_F(read_plan_cold_test, a_place_on_the_disk_of_the_holder_that_is_asked_is_left_to_it) {
  look_twice_asking(4);
  look_up({found({on_disk(near)})});
  EXPECT_TRUE(plan->take_cold().empty()) << "it is asked already";
  plan->told_by_holder({0, at(near, 8)}, false);
  read(only_read(), hit);
  expect_end(0, hit, page_origin::disk);
}

} // namespace
} // namespace peercache::client
