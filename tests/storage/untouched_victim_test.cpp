// Tests of `untouched_victim`: the page that a policy would evict first, if nobody has read this
// page.

#include "storage/eviction_policy.hpp"
#include "storage/lru.hpp"
#include "storage/s3fifo.hpp"
#include "tests/storage/eviction_support.hpp"

#include <gtest/gtest.h>

namespace peercache::storage {
namespace {

class untouched_victim_test : public testing::TestWithParam<eviction_kind> {
protected:
  void insert(std::uint32_t slot) { policy->insert(slot_id{slot}, key_number(slot), 1); }
  std::optional<slot_id> victim() {
    return policy->untouched_victim([](slot_id) { return true; });
  }

  std::unique_ptr<eviction_policy> policy = make_eviction_policy(GetParam(), 100);
};
INSTANTIATE_TEST_SUITE_P(of, untouched_victim_test,
                         testing::Values(eviction_kind::lru, eviction_kind::s3fifo,
                                         eviction_kind::automatic));

TEST_P(untouched_victim_test, is_none_where_there_is_no_page) {
  EXPECT_FALSE(victim());
}

TEST_P(untouched_victim_test, is_the_oldest_page) {
  insert(1);
  insert(2);
  EXPECT_EQ(victim(), slot_id{1});
  EXPECT_EQ(victim(), slot_id{2});
  EXPECT_FALSE(policy->victim()) << "the policy has no page left";
}

TEST_P(untouched_victim_test, is_behind_pages_that_may_not_go) {
  for (std::uint32_t slot = 1; slot <= 3; ++slot)
    insert(slot);
  const auto third = policy->untouched_victim([](slot_id slot) { return slot == slot_id{3}; });
  EXPECT_EQ(third, slot_id{3});
  EXPECT_EQ(victim(), slot_id{1}) << "the order of the others is as before";
}

TEST_P(untouched_victim_test, is_no_page_that_was_touched) {
  insert(1);
  policy->touch(slot_id{1});
  EXPECT_FALSE(victim());
  EXPECT_EQ(policy->victim(), slot_id{1}) << "the policy still has it";
}

TEST_P(untouched_victim_test, is_a_page_that_came_again) {
  insert(1);
  policy->touch(slot_id{1});
  policy->erase(slot_id{1});
  insert(1);
  EXPECT_EQ(victim(), slot_id{1});
}

TEST_P(untouched_victim_test, is_a_page_that_may_go) {
  insert(1);
  EXPECT_FALSE(policy->untouched_victim([](slot_id slot) { return slot != slot_id{1}; }));
  EXPECT_EQ(policy->victim(), slot_id{1}) << "the policy still has it";
}

TEST(untouched_victim, is_no_page_that_was_touched_before_another_policy_took_over) {
  lru before;
  before.insert(slot_id{1}, key_number(1), 1);
  before.touch(slot_id{1});
  s3fifo after(100, before.release());
  EXPECT_FALSE(after.untouched_victim([](slot_id) { return true; }));
  lru again(after.release());
  EXPECT_FALSE(again.untouched_victim([](slot_id) { return true; }));
}

} // namespace
} // namespace peercache::storage
