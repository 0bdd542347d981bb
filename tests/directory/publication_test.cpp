#include "directory/publication.hpp"

#include <gtest/gtest.h>

#include <initializer_list>

namespace peercache::directory::publication_test {
namespace {

using indices = std::vector<std::uint32_t>;

/// Publications of two pages with two owners each; the owner `first` owns both pages.
class publication_test : public testing::Test {
protected:
  void SetUp() override {
    for (const auto& asked : {first, second, third})
      said.will_ask(asked);
  }

  /// Returns the pages that the owner has to be told again.
  indices answer(const indices& owner, std::initializer_list<publish_outcome> outcomes) {
    std::string answer;
    for (const auto outcome : outcomes)
      answer.push_back(static_cast<char>(outcome));
    return said.note(owner, &answer);
  }

  const indices first{0, 1}, second{0}, third{1};
  publication said{2};
};

TEST_F(publication_test, is_decided_when_each_page_is_recorded_once) {
  answer(second, {publish_outcome::accepted});
  EXPECT_FALSE(said.is_decided()) << "nobody has recorded page 1";
  answer(third, {publish_outcome::stale});
  EXPECT_TRUE(said.is_decided());
  EXPECT_FALSE(said.is_done());
  EXPECT_EQ(said.note(first, nullptr), first) << "it has to be told again, and no other owner";
  EXPECT_TRUE(said.is_done());
  EXPECT_EQ(said.after_put(0), publication::sequel::none);
}

TEST_F(publication_test, only_what_an_owner_has_not_judged_is_told_to_it_again) {
  EXPECT_EQ(answer(first, {publish_outcome::accepted, publish_outcome::behind}), indices{1});
  EXPECT_EQ(answer(second, {publish_outcome::duplicate}), indices{});
  EXPECT_EQ(answer(third, {publish_outcome::unknown_holder}), indices{1});
  EXPECT_EQ(said.after_put(0), publication::sequel::tell_all) << "one owner knows it elsewhere";
  EXPECT_EQ(said.after_put(1), publication::sequel::none);
}

TEST_F(publication_test, waits_for_all_owners_of_a_page_that_is_known_elsewhere) {
  answer(first, {publish_outcome::accepted, publish_outcome::duplicate});
  EXPECT_FALSE(said.is_decided());
  EXPECT_FALSE(said.is_useless(1)) << "the other owner may record it yet";
  answer(third, {publish_outcome::duplicate});
  EXPECT_TRUE(said.is_decided());
  EXPECT_TRUE(said.is_useless(1));
  EXPECT_FALSE(said.is_useless(0));
}

TEST_F(publication_test, a_page_that_all_owners_refuse_is_of_no_use_to_tell_again) {
  answer(second, {publish_outcome::accepted});
  EXPECT_TRUE(said.may_be_recorded(1));
  answer(third, {publish_outcome::refused});
  answer(first, {publish_outcome::accepted, publish_outcome::refused});
  EXPECT_TRUE(said.is_decided());
  EXPECT_TRUE(said.is_done());
  EXPECT_FALSE(said.recorded[1]);
  EXPECT_EQ(said.after_put(1), publication::sequel::none);
}

TEST_F(publication_test, an_answer_that_nobody_waits_for_is_a_fault_of_ours) {
  for (const auto& asked : {first, second, third})
    said.failed(asked);
  EXPECT_DEATH(said.failed(first), "");
}

} // namespace
} // namespace peercache::directory::publication_test
