#include "storage/adaptive_policy.hpp"

#include "tests/storage/eviction_support.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace peercache::storage::adaptive_policy_test {
namespace {

constexpr std::uint64_t capacity_pages = 1000;

/// A workload: three in ten references go to 300 hot pages, the others to pages that are used only
/// once. LRU keeps pages that are used once and evicts many hot pages, so S3-FIFO is better.
class scan_heavy {
public:
  std::uint64_t next() { return random_() % 10 < 3 ? random_() % 300 : 1'000'000 + once_++; }

private:
  std::mt19937_64 random_{1};
  std::uint64_t once_ = 0;
};

/// A workload: each page is used twice, with references to half a pool of other pages between.
/// S3-FIFO's small queue has evicted the page before its second use, so LRU is better.
class recency_heavy {
public:
  std::uint64_t next() {
    const std::uint64_t turn = turn_++;
    const std::uint64_t page = turn / 2;
    return 1'000'000'000 + (turn % 2 == 0 ? page + capacity_pages / 4 : page);
  }

private:
  std::uint64_t turn_ = 0;
};

template <class Workload>
double hit_rate(tested_pool& pool, Workload& workload, int references) {
  int hits = 0;
  for (int i = 0; i < references; ++i) {
    hits += pool.use(workload.next()) ? 1 : 0;
  }
  return static_cast<double>(hits) / references;
}

template <class Workload>
double hit_rate_of(eviction_kind kind, int references) {
  const auto policy = make_eviction_policy(kind, capacity_pages);
  tested_pool pool(*policy, capacity_pages);
  Workload workload;
  hit_rate(pool, workload, references);
  return hit_rate(pool, workload, references);
}

TEST(adaptive_policy, follows_the_better_policy_and_switches_back) {
  constexpr int references = 40'000;
  const double scans_lru = hit_rate_of<scan_heavy>(eviction_kind::lru, references);
  const double scans_s3fifo = hit_rate_of<scan_heavy>(eviction_kind::s3fifo, references);
  const double recent_lru = hit_rate_of<recency_heavy>(eviction_kind::lru, references);
  const double recent_s3fifo = hit_rate_of<recency_heavy>(eviction_kind::s3fifo, references);
  ASSERT_GT(scans_s3fifo, scans_lru + 0.05);
  ASSERT_GT(recent_lru, recent_s3fifo + 0.05);

  adaptive_policy policy(capacity_pages);
  tested_pool pool(policy, capacity_pages);
  scan_heavy scans;
  recency_heavy recent;
  for (int round = 0; round < 3; ++round) {
    SCOPED_TRACE(round);
    hit_rate(pool, scans, references);
    EXPECT_EQ(policy.stats().active, eviction_kind::s3fifo);
    EXPECT_NEAR(hit_rate(pool, scans, references), scans_s3fifo, 0.01);
    hit_rate(pool, recent, references);
    EXPECT_EQ(policy.stats().active, eviction_kind::lru);
    EXPECT_NEAR(hit_rate(pool, recent, references), recent_lru, 0.01);
  }
  EXPECT_EQ(policy.stats().switches, 6u);
}

TEST(adaptive_policy, a_switch_loses_no_page_and_invents_none) {
  adaptive_policy policy(capacity_pages);
  tested_pool pool(policy, capacity_pages);
  scan_heavy scans;
  recency_heavy recent;
  for (int round = 0; round < 4; ++round) {
    const std::uint64_t before = policy.stats().switches;
    for (int i = 0; policy.stats().switches == before; ++i) {
      ASSERT_LT(i, 100'000) << "never switched";
      pool.use(round % 2 == 0 ? scans.next() : recent.next());
    }
    ASSERT_EQ(pool.size(), capacity_pages);
  }
  for (std::uint64_t left = capacity_pages; left > 0; --left) {
    pool.evict(); // The test pool's `evict` asserts that the victim is one of its pages.
  }
  EXPECT_EQ(policy.victim(), std::nullopt);
}

TEST(adaptive_policy, does_not_swing_between_two_equals) {
  adaptive_policy policy(capacity_pages);
  tested_pool pool(policy, capacity_pages);
  std::mt19937_64 random(7);
  for (int i = 0; i < 300'000; ++i) {
    // The references are uniform, so no policy is better than another.
    pool.use(random() % (2 * capacity_pages));
  }
  EXPECT_EQ(policy.stats().switches, 0u);
  EXPECT_NEAR(policy.stats().lru_hit_rate, policy.stats().s3fifo_hit_rate, 0.015);
}

TEST(adaptive_policy, erased_pages_are_no_victims) {
  adaptive_policy policy(capacity_pages);
  tested_pool pool(policy, capacity_pages);
  for (std::uint64_t page = 0; page < 10; ++page) {
    pool.use(page);
  }
  for (std::uint64_t page = 0; page < 10; page += 2) {
    pool.erase(page);
  }
  for (std::uint64_t page = 1; page < 10; page += 2) {
    EXPECT_EQ(pool.evict(), page);
  }
  EXPECT_EQ(policy.victim(), std::nullopt);
}

TEST(adaptive_policy, the_sample_follows_the_number_of_pages_that_fit) {
  constexpr std::uint64_t capacity_bytes = 64u << 20;
  adaptive_policy policy(capacity_bytes);
  tested_pool pool(policy, capacity_bytes);
  EXPECT_EQ(policy.stats().sampled_share, 1);
  for (std::uint64_t page = 0; page < 200'000; ++page) {
    pool.use(page, 1 << 10);
  }
  EXPECT_EQ(policy.stats().sampled_share, 1.0 / 32);
  for (std::uint64_t page = 1'000'000; page < 1'020'000; ++page) {
    pool.use(page, 1 << 20);
  }
  EXPECT_EQ(policy.stats().sampled_share, 1);
}

TEST(adaptive_policy, a_sample_tells_the_same_as_all_keys) {
  // In a pool of this size the policy samples one key in 32; smaller pools sample more.
  constexpr std::uint64_t pages = 40'000;
  adaptive_policy policy(pages);
  tested_pool pool(policy, pages);
  std::mt19937_64 random(1);
  int hits = 0;
  constexpr int references = 500'000;
  for (int i = 0; i < 2 * references; ++i) {
    const bool hot = random() % 10 < 3;
    hits += pool.use(hot ? random() % 12'000 : 1'000'000u + i) && i >= references ? 1 : 0;
  }
  EXPECT_EQ(policy.stats().sampled_share, 1.0 / 32);
  EXPECT_EQ(policy.stats().active, eviction_kind::s3fifo);
  EXPECT_NEAR(policy.stats().s3fifo_hit_rate, static_cast<double>(hits) / references, 0.03);
}

TEST(adaptive_policy, costs_at_most_48_bytes_a_page_and_200_kib) {
  for (const std::uint64_t pages : {5'000, 100'000}) {
    adaptive_policy policy(pages);
    tested_pool pool(policy, pages);
    for (std::uint64_t i = 0; i < 3 * pages; ++i) {
      pool.use(i);
    }
    EXPECT_LE(policy.memory_bytes(), pages * 48 + (200 << 10)) << pages;
  }
}

TEST(make_eviction_policy, every_kind_is_made) {
  for (const auto kind : {eviction_kind::lru, eviction_kind::s3fifo, eviction_kind::automatic}) {
    const auto policy = make_eviction_policy(kind, 10);
    ASSERT_NE(policy, nullptr);
    tested_pool pool(*policy, 10);
    pool.use_chain(chain_of(0, 10, 10));
    EXPECT_EQ(pool.evict(), 9u);
  }
}

TEST(make_eviction_policy, touching_protects_in_every_kind) {
  for (const auto kind : {eviction_kind::lru, eviction_kind::s3fifo, eviction_kind::automatic}) {
    const auto policy = make_eviction_policy(kind, 10);
    tested_pool pool(*policy, 10);
    pool.use(0);
    pool.use(1);
    pool.use(0);
    EXPECT_EQ(pool.evict(), 1u);
  }
}

} // namespace
} // namespace peercache::storage::adaptive_policy_test
