#include "storage/ghost_keys.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>

namespace peercache::storage::ghost_keys_test {
namespace {

TEST(ghost_keys, a_key_is_taken_once) {
  ghost_keys ghosts;
  EXPECT_FALSE(ghosts.take(1, 10));
  ghosts.remember(1, 10);
  EXPECT_TRUE(ghosts.take(1, 10));
  EXPECT_FALSE(ghosts.take(1, 10));
}

TEST(ghost_keys, without_takes_it_is_exactly_a_fifo) {
  ghost_keys ghosts;
  constexpr std::uint64_t limit = 1000;
  for (std::uint64_t key = 0; key < 50'000; ++key) {
    ghosts.remember(key, limit);
  }
  EXPECT_EQ(ghosts.size(), limit);
  for (std::uint64_t key = 0; key < 50'000; ++key) {
    ASSERT_EQ(ghosts.take(key, limit), key >= 49'000) << key;
  }
}

TEST(ghost_keys, a_smaller_limit_forgets_the_oldest) {
  ghost_keys ghosts;
  for (std::uint64_t key = 0; key < 100; ++key) {
    ghosts.remember(key, 100);
  }
  EXPECT_FALSE(ghosts.take(89, 10));
  EXPECT_TRUE(ghosts.take(90, 10));
  EXPECT_FALSE(ghosts.take(99, 0));
  ghosts.remember(7, 0);
  EXPECT_EQ(ghosts.size(), 0u);
}

TEST(ghost_keys, growing_forgets_nothing) {
  ghost_keys ghosts;
  for (std::uint64_t key = 0; key < 20'000; ++key) {
    ghosts.remember(key, key + 1);
  }
  for (std::uint64_t key = 0; key < 20'000; ++key) {
    ASSERT_TRUE(ghosts.take(key, 20'000)) << key;
  }
}

/// `ghost_keys` may forget old keys early, because taken keys leave gaps in its ring. But it must
/// know the last `limit` keys that were remembered.
TEST(ghost_keys, random_takes_cost_only_the_oldest) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const std::size_t limit = 1 + random() % 200;
    ghost_keys ghosts;
    struct remembered {
      std::uint64_t key;
      std::uint64_t number;
    };
    // The keys that ghost_keys should know: the last `limit` that were remembered and not taken.
    std::deque<remembered> model;
    std::uint64_t number = 0;
    for (int step = 0; step < 20'000; ++step) {
      const std::uint64_t key = random() % (3 * limit);
      const auto found = std::find_if(model.begin(), model.end(),
                                      [&](const remembered& it) { return it.key == key; });
      if (random() % 2 == 0) {
        if (found != model.end()) {
          model.erase(found);
        }
        ghosts.remember(key, limit);
        model.push_back({key, number++});
        if (model.size() > limit) {
          model.pop_front();
        }
      } else {
        const bool taken = ghosts.take(key, limit);
        ASSERT_TRUE(!taken || found != model.end());
        if (found != model.end()) {
          ASSERT_TRUE(taken || found->number + limit < number);
          model.erase(found);
        }
      }
      ASSERT_LE(ghosts.size(), model.size());
    }
  }
}

TEST(ghost_keys, steady_state_takes_no_more_memory_and_at_most_14_bytes_a_key) {
  ghost_keys ghosts;
  for (std::uint64_t key = 0; key < 500'000; ++key) {
    ghosts.remember(key, 100'000);
    ghosts.take(key * 7 % 500'000, 100'000);
  }
  EXPECT_LE(ghosts.memory_bytes(), 1'400'000u);
}

} // namespace
} // namespace peercache::storage::ghost_keys_test
