// The page that each policy would evict first, if nobody has read it.

#include "storage/eviction_policy.hpp"
#include "tests/storage/eviction_support.hpp"

#include <gtest/gtest.h>

namespace peercache::storage {
namespace {

class untouched_victim_test : public testing::TestWithParam<eviction_kind> {
protected:
  void insert(std::uint32_t slot) { policy->insert(slot_id{slot}, key_number(slot), 1); }

  std::unique_ptr<eviction_policy> policy = make_eviction_policy(GetParam(), 100);
};
INSTANTIATE_TEST_SUITE_P(of, untouched_victim_test,
                         testing::Values(eviction_kind::lru, eviction_kind::s3fifo,
                                         eviction_kind::automatic));

TEST_P(untouched_victim_test, is_none_where_there_is_no_page) {
  EXPECT_FALSE(policy->untouched_victim());
}

TEST_P(untouched_victim_test, is_the_oldest_page) {
  insert(1);
  insert(2);
  EXPECT_EQ(policy->untouched_victim(), slot_id{1});
  EXPECT_EQ(policy->untouched_victim(), slot_id{2});
  EXPECT_FALSE(policy->victim()) << "the policy has no page left";
}

TEST_P(untouched_victim_test, is_no_page_that_was_touched) {
  insert(1);
  policy->touch(slot_id{1});
  EXPECT_FALSE(policy->untouched_victim());
  EXPECT_EQ(policy->victim(), slot_id{1}) << "the policy still has it";
}

TEST_P(untouched_victim_test, is_a_page_that_came_again) {
  insert(1);
  policy->touch(slot_id{1});
  policy->erase(slot_id{1});
  insert(1);
  EXPECT_EQ(policy->untouched_victim(), slot_id{1});
}

} // namespace
} // namespace peercache::storage
