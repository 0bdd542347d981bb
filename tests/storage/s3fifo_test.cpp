#include "storage/s3fifo.hpp"

#include "storage/lru.hpp"
#include "tests/storage/eviction_support.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>

namespace peercache::storage::s3fifo_test {
namespace {

/// A simple S3-FIFO after its paper, with deques. Its ghost queue is the product's `ghost_keys`,
/// which has tests of its own.
class s3fifo_model {
public:
  explicit s3fifo_model(std::uint64_t capacity_bytes) : small_bytes_max_(capacity_bytes / 10) {}

  bool contains(slot_id slot) { return find(small_, slot) || find(main_, slot); }
  std::size_t size() const { return small_.size() + main_.size(); }

  void insert(slot_id slot, std::uint64_t digest, std::uint32_t length_bytes) {
    (ghosts_.take(digest, size() + 1) ? main_ : small_).push_back({slot, digest, length_bytes, 0});
  }

  void touch(slot_id slot) {
    page* it = find(small_, slot);
    it = it ? it : find(main_, slot);
    it->uses = std::min(3, it->uses + 1);
  }

  void erase(slot_id slot) {
    for (auto* queue : {&small_, &main_}) {
      std::erase_if(*queue, [&](const page& it) { return it.slot == slot; });
    }
  }

  std::optional<slot_id> victim() {
    std::uint64_t small_bytes = 0;
    for (const page& it : small_) {
      small_bytes += it.length_bytes;
    }
    if (small_bytes >= small_bytes_max_ || main_.empty()) {
      while (!small_.empty()) {
        page it = small_.front();
        if (it.uses == 0) {
          ghosts_.remember(it.digest, size());
          small_.pop_front();
          return it.slot;
        }
        small_.pop_front();
        it.uses = 0;
        main_.push_back(it);
      }
    }
    while (!main_.empty()) {
      page it = main_.front();
      main_.pop_front();
      if (it.uses-- == 0) {
        return it.slot;
      }
      main_.push_back(it);
    }
    return std::nullopt;
  }

private:
  struct page {
    slot_id slot;
    std::uint64_t digest;
    std::uint32_t length_bytes;
    int uses;
  };

  static page* find(std::deque<page>& queue, slot_id slot) {
    const auto found =
        std::find_if(queue.begin(), queue.end(), [&](const page& it) { return it.slot == slot; });
    return found == queue.end() ? nullptr : &*found;
  }

  std::uint64_t small_bytes_max_;
  std::deque<page> small_, main_;
  ghost_keys ghosts_;
};

TEST(s3fifo, agrees_with_its_model_under_random_operations) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    s3fifo policy(20'000);
    s3fifo_model model(20'000);
    for (int step = 0; step < 10'000; ++step) {
      // Each slot always has the same key, so that evicted keys come back while they are ghosts.
      const slot_id slot{static_cast<std::uint32_t>(random() % 300) * 16};
      if (random() % 4 == 0) {
        const auto victim = model.victim();
        ASSERT_EQ(policy.victim(), victim);
      } else if (!model.contains(slot)) {
        const auto length_bytes = static_cast<std::uint32_t>(1 + random() % 200);
        policy.insert(slot, key_number(slot.value), length_bytes);
        model.insert(slot, key_number(slot.value).prefix(), length_bytes);
      } else if (random() % 8 == 0) {
        policy.erase(slot);
        model.erase(slot);
      } else {
        policy.touch(slot);
        model.touch(slot);
      }
      ASSERT_EQ(policy.pages().size(), model.size());
    }
    while (const auto victim = model.victim()) {
      ASSERT_EQ(policy.victim(), victim);
    }
    ASSERT_EQ(policy.victim(), std::nullopt);
    ASSERT_EQ(policy.bytes(), 0u);
  }
}

TEST(s3fifo, a_scan_passes_through_a_tenth_of_the_bytes) {
  s3fifo policy(1000);
  tested_pool pool(policy, 1000);
  for (int round = 0; round < 2; ++round) {
    for (std::uint64_t page = 0; page < 900; ++page) {
      pool.use(page);
    }
  }
  for (std::uint64_t page = 10'000; page < 15'000; ++page) {
    pool.use(page);
  }
  for (std::uint64_t page = 0; page < 900; ++page) {
    ASSERT_TRUE(pool.contains(page)) << page;
  }
}

TEST(s3fifo, the_tenth_is_counted_in_bytes_not_pages) {
  s3fifo policy(1000);
  tested_pool pool(policy, 1000);
  for (int round = 0; round < 2; ++round) {
    for (std::uint64_t page = 0; page < 9; ++page) {
      pool.use(page, 100);
    }
  }
  for (std::uint64_t page = 100; page < 1000; ++page) {
    pool.use(page, 10); // Ten of these pages fill the small queue.
  }
  for (std::uint64_t page = 0; page < 9; ++page) {
    EXPECT_TRUE(pool.contains(page)) << page;
  }
  EXPECT_EQ(pool.size(), 19u);
}

TEST(s3fifo, a_page_that_comes_back_as_a_ghost_survives_a_scan) {
  s3fifo policy(100);
  tested_pool pool(policy, 100);
  for (std::uint64_t page = 0; page < 150; ++page) {
    pool.use(page);
  }
  ASSERT_FALSE(pool.contains(0));
  pool.use(0);
  for (std::uint64_t page = 1000; page < 5000; ++page) {
    pool.use(page);
  }
  EXPECT_TRUE(pool.contains(0));
  EXPECT_FALSE(pool.contains(1)) << "was not asked for again";
}

TEST(s3fifo, a_chain_goes_from_last_to_first) {
  for (const int touches : {0, 1, 3}) {
    SCOPED_TRACE(touches);
    s3fifo policy(20);
    tested_pool pool(policy, 20);
    for (int i = 0; i <= touches; ++i) {
      pool.use_chain(chain_of(0, 20, 20));
    }
    for (std::uint64_t page = 20; page-- > 0;) {
      ASSERT_EQ(pool.evict(), page);
    }
  }
}

TEST(s3fifo, a_chain_that_comes_back_from_the_ghosts_still_goes_from_last_to_first) {
  s3fifo policy(40);
  tested_pool pool(policy, 40);
  pool.use_chain(chain_of(0, 20, 20));
  for (std::uint64_t page = 1000; page < 1040; ++page) {
    pool.use(page);
  }
  pool.use_chain(chain_of(0, 20, 20));
  std::vector<std::uint64_t> gone;
  while (pool.size() > 0) {
    if (const std::uint64_t page = pool.evict(); page < 20) {
      gone.push_back(page);
    }
  }
  EXPECT_TRUE(std::is_sorted(gone.rbegin(), gone.rend()));
  EXPECT_EQ(gone.size(), 20u);
}

TEST(s3fifo, at_most_a_few_percent_of_the_pages_outlive_the_one_before_them) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    s3fifo policy(400);
    tested_pool pool(policy, 400);
    std::size_t stranded = 0, resident = 0;
    for (int step = 0; step < 1000; ++step) {
      pool.use_chain(chain_of(random() % 80, 20, 1 + random() % 20));
      stranded += stranded_pages(pool, 20);
      resident += pool.size();
    }
    EXPECT_LT(stranded * 100, resident * 3);
  }
}

TEST(s3fifo, moving_from_lru_and_back_keeps_every_page_in_order) {
  lru from;
  tested_pool pool(from, 100);
  for (std::uint64_t page = 0; page < 100; ++page) {
    pool.use(page);
  }
  s3fifo between(100, from.release());
  EXPECT_EQ(between.bytes(), 100u);
  lru to(between.release());
  EXPECT_EQ(between.victim(), std::nullopt);
  for (std::uint32_t i = 1; i <= 100; ++i) {
    ASSERT_EQ(to.victim(), slot_id{i * 512});
  }
}

TEST(s3fifo, a_page_costs_at_most_48_bytes_with_its_ghost) {
  s3fifo policy(200'000);
  tested_pool pool(policy, 200'000);
  std::mt19937_64 random(1);
  for (int i = 0; i < 600'000; ++i) {
    pool.use(random() % 500'000);
  }
  EXPECT_LE(policy.memory_bytes(), 200'000u * 48);
}

TEST(s3fifo_death, touching_or_erasing_what_is_not_resident_is_our_bug) {
  s3fifo policy(100);
  EXPECT_DEATH(policy.touch(slot_id{1}), "none");
  EXPECT_DEATH(policy.erase(slot_id{1}), "none");
}

} // namespace
} // namespace peercache::storage::s3fifo_test
