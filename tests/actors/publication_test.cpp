#include "actors/publication.hpp"

#include <gtest/gtest.h>

#include <initializer_list>

namespace peercache::actors::publication_test {
namespace {

using directory::publish_outcome;
using indices = std::vector<std::uint32_t>;

/// Two pages with two owners each, of which `first` owns both.
class publication_test : public testing::Test {
protected:
  void SetUp() override {
    said.decided = [this](publication&) { ++decided; };
    said.done = [this](publication&) { ++done; };
    said.waiting = 4;
    for (const auto& asked : {first, second, third})
      said.will_ask(asked);
    said.finish_one(); // All are asked.
  }

  void answer(const indices& owner, std::initializer_list<publish_outcome> outcomes) {
    std::string answer;
    for (const auto outcome : outcomes)
      answer.push_back(static_cast<char>(outcome));
    said.answered(owner, answer);
  }

  const indices first{0, 1}, second{0}, third{1};
  publication said{2};
  int decided = 0, done = 0;
};

TEST_F(publication_test, is_decided_when_each_page_is_recorded_once) {
  answer(second, {publish_outcome::accepted});
  EXPECT_EQ(decided, 0) << "nobody has recorded page 1";
  answer(third, {publish_outcome::stale});
  EXPECT_EQ(decided, 1);
  EXPECT_EQ(done, 0);
  said.failed(first);
  EXPECT_EQ(decided, 1);
  EXPECT_EQ(done, 1);
  EXPECT_EQ(said.after_put(0), publication::sequel::tell_all);
}

TEST_F(publication_test, waits_for_all_owners_of_a_page_that_is_known_elsewhere) {
  answer(first, {publish_outcome::accepted, publish_outcome::duplicate});
  EXPECT_EQ(decided, 0);
  EXPECT_FALSE(said.is_useless(1)) << "the other owner may record it yet";
  answer(third, {publish_outcome::duplicate});
  EXPECT_EQ(decided, 1);
  EXPECT_TRUE(said.is_useless(1));
  EXPECT_FALSE(said.is_useless(0));
}

TEST_F(publication_test, is_decided_once_when_it_is_not_waited_for_any_longer) {
  answer(second, {publish_outcome::accepted});
  said.decide();
  EXPECT_EQ(decided, 1);
  EXPECT_TRUE(said.may_be_recorded(1));
  answer(third, {publish_outcome::refused});
  answer(first, {publish_outcome::accepted, publish_outcome::refused});
  EXPECT_EQ(decided, 1);
  EXPECT_EQ(done, 1);
  EXPECT_FALSE(said.recorded[1]);
  EXPECT_EQ(said.after_put(1), publication::sequel::none) << "to tell it again is of no use";
}

} // namespace
} // namespace peercache::actors::publication_test
