#include "client/members/promote_plan.hpp"

#include "common/limits.hpp"
#include "directory/wire.hpp"
#include "link/protocol/disk_wire.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

namespace peercache::client {
namespace {

using namespace std::chrono_literals;

class promote_plan_test : public testing::Test {
protected:
  static page_key key(std::size_t i) { return key_space{}.key_of(std::to_string(i)); }
  static directory::page_location at(const incarnation& holder, std::uint32_t length_bytes = 4096) {
    directory::page_location place;
    place.holder = holder;
    place.gen = {2};
    place.length_bytes = length_bytes;
    return place;
  }
  /// Packs a node's answer: one location or none for each page.
  static std::string answer(const std::vector<std::optional<directory::page_location>>& places) {
    std::string said;
    for (const auto& place : places)
      directory::append_answer(said, place ? std::span(&*place, 1)
                                           : std::span<const directory::page_location>{});
    return said;
  }
  promote_plan::share two_pages() {
    promote_plan plan;
    plan.add(5, key(5), at(near));
    plan.add(9, key(9), at(near));
    return plan.shares()[0];
  }

  const incarnation near{1, 2};
  const incarnation far{1, 3};
};

TEST_F(promote_plan_test, is_empty_at_first) {
  EXPECT_TRUE(promote_plan{}.empty());
  EXPECT_TRUE(promote_plan{}.shares().empty());
}

TEST_F(promote_plan_test, each_node_is_asked_once_for_its_pages_and_their_lengths) {
  promote_plan plan;
  plan.add(0, key(0), at(near, 64));
  plan.add(1, key(1), at(far));
  plan.add(7, key(7), at(near));
  ASSERT_EQ(plan.shares().size(), 2u);
  const auto& first = plan.shares()[0];
  EXPECT_EQ(first.holder, near);
  EXPECT_EQ(first.indices, (std::vector<std::uint32_t>{0, 7}));
  const auto asked = link::record_at<link::promoted_page>(first.request, 0);
  EXPECT_EQ(asked.key, key(0));
  EXPECT_EQ(asked.length_bytes, 64u);
  EXPECT_EQ(link::record_at<link::promoted_page>(first.request, 1).key, key(7));
  EXPECT_EQ(plan.shares()[1].holder, far);
}

TEST_F(promote_plan_test, pages_that_somebody_waits_for_are_asked_for_in_growing_questions) {
  promote_plan plan(promote_plan::questions::growing);
  constexpr std::uint32_t page_bytes = 1u << 20;
  std::uint32_t index = 0;
  for (; index < 32; ++index)
    plan.add(index, key(index), at(near, page_bytes));
  plan.add(index, key(index), at(far, page_bytes));
  std::vector<std::size_t> pages;
  std::uint32_t next = 0;
  for (const auto& share : plan.shares()) {
    pages.push_back(share.indices.size());
    EXPECT_LE(share.bytes, promote_plan::small_bytes_max);
    for (const auto asked : share.indices)
      EXPECT_EQ(asked, next++) << "the first pages are asked for first";
  }
  EXPECT_EQ(pages, (std::vector<std::size_t>{1, 2, 4, 8, 8, 8, 1, 1}));
  EXPECT_EQ(plan.shares().back().holder, far);
}

TEST_F(promote_plan_test, a_batch_of_8192_pages_is_a_bounded_number_of_questions) {
  for (const std::uint32_t page_bytes : {4096u, 1u << 20, limits::page_bytes_max}) {
    promote_plan plan(promote_plan::questions::growing);
    for (std::uint32_t index = 0; index < limits::batch_pages_max; ++index)
      plan.add(index, key(index), at(near, page_bytes));
    EXPECT_LE(plan.shares().size(), promote_plan::questions_max) << page_bytes;
    EXPECT_GE(plan.shares().size(), promote_plan::small_questions) << page_bytes;
    EXPECT_EQ(plan.shares().front().indices.size(), 1u);
  }
}

TEST_F(promote_plan_test, a_page_above_the_size_of_a_question_has_one_of_its_own) {
  promote_plan plan(promote_plan::questions::growing);
  for (std::uint32_t index = 0; index < 3; ++index)
    plan.add(index, key(index), at(near, 64u << 20));
  EXPECT_EQ(plan.shares().size(), 3u);
}

TEST_F(promote_plan_test, a_node_answers_before_its_reader_gives_up) {
  EXPECT_EQ(promote_plan::patience(2000ms), 1950ms);
  EXPECT_EQ(promote_plan::patience(80ms), 70ms);
  EXPECT_EQ(promote_plan::patience(4ms), 3ms);
}

TEST_F(promote_plan_test, without_time_nobody_is_asked) {
  EXPECT_LE(promote_plan::patience(1ms), 0ms);
  EXPECT_LE(promote_plan::patience(0ms), 0ms);
  EXPECT_LT(promote_plan::patience(-5ms), 0ms);
}

TEST_F(promote_plan_test, each_page_has_the_place_that_the_node_says) {
  const auto places = promote_plan::places(two_pages(), answer({at(near), std::nullopt}));
  ASSERT_EQ(places.size(), 2u);
  EXPECT_EQ(places[0].index, 5u);
  EXPECT_EQ(places[0].location, at(near));
  EXPECT_EQ(places[1].index, 9u);
  EXPECT_FALSE(places[1].location);
}

TEST_F(promote_plan_test, a_node_that_did_not_answer_brought_nothing) {
  const auto places = promote_plan::places(two_pages(), {});
  ASSERT_EQ(places.size(), 2u);
  EXPECT_FALSE(places[0].location);
  EXPECT_FALSE(places[1].location);
}

TEST_F(promote_plan_test, an_answer_that_ends_early_or_is_garbage_brought_what_could_be_read) {
  auto said = answer({at(near), at(near)});
  said.pop_back();
  auto places = promote_plan::places(two_pages(), said);
  EXPECT_TRUE(places[0].location);
  EXPECT_FALSE(places[1].location);
  places = promote_plan::places(two_pages(), "\xff\xff\xff");
  EXPECT_FALSE(places[0].location);
  EXPECT_FALSE(places[1].location);
}

TEST_F(promote_plan_test, a_page_that_is_still_on_the_disk_is_no_place_to_read) {
  auto cold = at(near);
  cold.where = directory::tier::disk;
  EXPECT_FALSE(promote_plan::places(two_pages(), answer({cold, at(near)}))[0].location);
}

TEST_F(promote_plan_test, a_node_speaks_for_nobody_else) {
  const auto places = promote_plan::places(two_pages(), answer({at(far), at(near)}));
  EXPECT_FALSE(places[0].location) << "of a process that the reader did not ask";
  EXPECT_TRUE(places[1].location);
}

} // namespace
} // namespace peercache::client
