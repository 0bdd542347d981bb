#include "storage/lru.hpp"

#include "tests/storage/eviction_support.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <random>

namespace peercache::storage::lru_test {
namespace {

TEST(lru, has_no_victim_when_empty) {
  lru policy;
  EXPECT_EQ(policy.victim(), std::nullopt);
  policy.insert(slot_id{3}, key_number(3), 1);
  EXPECT_EQ(policy.victim(), slot_id{3});
  EXPECT_EQ(policy.victim(), std::nullopt);
}

TEST(lru, agrees_with_a_list_under_random_operations) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    lru policy;
    std::list<slot_id> model; // The slots in the order of eviction, the next victim in front.
    for (int step = 0; step < 5000; ++step) {
      const slot_id slot{static_cast<std::uint32_t>(random() % 300) * 16};
      const auto found = std::find(model.begin(), model.end(), slot);
      if (random() % 5 == 0) {
        const auto expected = model.empty() ? std::nullopt : std::optional(model.front());
        ASSERT_EQ(policy.victim(), expected);
        if (expected) {
          model.pop_front();
        }
      } else if (found == model.end()) {
        policy.insert(slot, key_number(slot.value), 1);
        model.push_back(slot);
      } else if (random() % 4 == 0) {
        policy.erase(slot);
        model.erase(found);
      } else {
        policy.touch(slot);
        model.splice(model.end(), model, found);
      }
      ASSERT_EQ(policy.bytes(), model.size());
    }
  }
}

TEST(lru, no_page_outlives_the_one_before_it) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    lru policy;
    tested_pool pool(policy, 100);
    for (int step = 0; step < 2000; ++step) {
      pool.use_chain(chain_of(random() % 40, 20, 1 + random() % 20));
      ASSERT_EQ(stranded_pages(pool, 20), 0u);
    }
  }
}

TEST(lru, released_pages_go_on_in_their_order) {
  lru first;
  tested_pool pool(first, 10);
  pool.use_chain(chain_of(0, 10, 10));
  lru second(first.release());
  EXPECT_EQ(first.victim(), std::nullopt);
  for (std::uint32_t i = 1; i <= 10; ++i) {
    ASSERT_EQ(second.victim(), slot_id{i * 512});
  }
}

TEST(lru_death, touching_or_erasing_what_is_not_resident_is_our_bug) {
  lru policy;
  EXPECT_DEATH(policy.touch(slot_id{1}), "none");
  EXPECT_DEATH(policy.erase(slot_id{1}), "none");
}

} // namespace
} // namespace peercache::storage::lru_test
