// Compares a page_pool with a plain map of pages. Measures how much of a pool that is full of pages
// of one size pages of a new size get.

#include "storage/page_pool.hpp"

#include "heap_pool.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace peercache::storage::page_pool_model_test {
namespace {

constexpr std::uint32_t granule = limits::granule_bytes;

/// Makes random calls of a pool, and compares the pool with a map of its pages.
class pool_against_model {
public:
  pool_against_model(std::uint64_t seed, std::uint32_t granules, eviction_kind kind)
      : random_(seed), memory_(granules, false), slots_(memory_.slots()),
        pool_(slots_, make_eviction_policy(kind, granules * std::uint64_t{granule}), {},
              memory_.index()) {}

  void step() {
    auto dice = random_() % 100;
    if (dice < 40)
      reserve();
    else if (dice < 60)
      commit();
    else if (dice < 65)
      abandon();
    else if (dice < 75)
      look_up();
    else if (dice < 80)
      remove();
    else if (dice < 90)
      pin_or_unpin();
    else if (dice < 97)
      pool_.fold_uses(8);
    else
      pool_.evict_ahead(victims_);
    forget_victims();
    check_sums();
  }

  void finish() {
    for (const auto& pinned : pinned_)
      slots_.unpin(pinned.slot);
    for (auto [slot, length] : filling_)
      ASSERT_TRUE(pool_.abandon({slot}));
    for (const auto& [number, page] : resident_)
      ASSERT_TRUE(pool_.remove(key_of(number)));
    pool_.reclaim();
    auto stats = pool_.stats();
    EXPECT_EQ(stats.free_bytes, stats.capacity_bytes);
    EXPECT_EQ(stats.free_extents, 1u);
    EXPECT_EQ(stats.pages + stats.filling + stats.limbo, 0u);
  }

private:
  struct page {
    slot_id slot;
    generation gen;
    std::uint32_t length_bytes = 0;
  };

  std::uint32_t random_length() {
    auto granules = random_() % 10 == 0 ? 1 + random_() % 64 : 1 + random_() % 4;
    return static_cast<std::uint32_t>(granules * granule - random_() % granule);
  }

  void reserve() {
    auto length = random_length();
    auto slot = pool_.reserve(length, victims_);
    forget_victims();
    if (!slot)
      return;
    expect_unused(*slot, length);
    filling_.emplace(slot->value, length);
  }

  /// Expects that a new slot overlaps no page that is readable, being filled or pinned.
  void expect_unused(slot_id slot, std::uint32_t length) {
    auto first = slot.value, end = slot.value + (length + granule - 1) / granule;
    auto apart = [&](slot_id other, std::uint32_t other_length) {
      auto other_end = other.value + (other_length + granule - 1) / granule;
      ASSERT_TRUE(other_end <= first || end <= other.value) << first << " overlaps " << other.value;
    };
    for (const auto& [number, here] : resident_)
      apart(here.slot, here.length_bytes);
    for (auto [other, other_length] : filling_)
      apart({other}, other_length);
    for (const auto& pinned : pinned_)
      apart(pinned.slot, pinned.length_bytes);
  }

  void commit() {
    std::vector<fill> fills;
    std::vector<std::uint64_t> numbers;
    while (!filling_.empty() && fills.size() < 5) {
      auto [slot, length] = *filling_.begin();
      numbers.push_back(random_() % 300);
      fills.push_back({{slot}, key_of(numbers.back()), length, random_() | 1});
      slots_.fill({slot}, fills.back().key, length, fills.back().checksum);
      filling_.erase(filling_.begin());
    }
    std::vector<commit_outcome> outcomes(fills.size());
    pool_.commit(fills, outcomes, fill_origin::producer);
    for (std::size_t i = 0; i < fills.size(); ++i) {
      auto here = resident_.find(numbers[i]);
      if (here != resident_.end() && here->second.length_bytes == fills[i].length_bytes) {
        ASSERT_EQ(outcomes[i].status, page_status::duplicate);
        ASSERT_EQ(outcomes[i].gen, here->second.gen);
        continue;
      }
      ASSERT_EQ(outcomes[i].replaced.has_value(), here != resident_.end());
      if (outcomes[i].replaced) {
        ASSERT_EQ(outcomes[i].replaced->gen, here->second.gen);
      }
      ASSERT_EQ(outcomes[i].status, page_status::stored);
      auto& newest = newest_[fills[i].slot.value];
      ASSERT_GT(outcomes[i].gen, newest) << "a generation came back";
      newest = outcomes[i].gen;
      resident_[numbers[i]] = {fills[i].slot, outcomes[i].gen, fills[i].length_bytes};
      key_numbers_[key_of(numbers[i])] = numbers[i];
    }
  }

  void abandon() {
    if (filling_.empty())
      return;
    ASSERT_TRUE(pool_.abandon({filling_.begin()->first}));
    filling_.erase(filling_.begin());
  }

  void look_up() {
    auto number = random_() % 300;
    auto found = pool_.find(key_of(number));
    auto here = resident_.find(number);
    ASSERT_EQ(found.has_value(), here != resident_.end());
    const auto on_host = memory_.index().find(key_of(number));
    ASSERT_EQ(on_host.has_value(), found.has_value());
    if (!found)
      return;
    ASSERT_EQ(on_host->slot, found->slot);
    ASSERT_EQ(found->slot, here->second.slot);
    ASSERT_EQ(slots_.check(found->slot, found->gen, key_of(number), here->second.length_bytes),
              page_status::hit);
    slots_.count_use(found->slot);
  }

  void remove() {
    auto number = random_() % 300;
    ASSERT_EQ(pool_.remove(key_of(number)).has_value(), resident_.erase(number) == 1);
  }

  void pin_or_unpin() {
    if (pinned_.size() > 4 || (!pinned_.empty() && random_() % 2 == 0)) {
      slots_.unpin(pinned_.back().slot);
      pinned_.pop_back();
    } else if (!resident_.empty()) {
      const auto& [number, here] = *resident_.begin();
      ASSERT_EQ(slots_.pin_if(here.slot, here.gen, key_of(number), here.length_bytes),
                page_status::hit);
      pinned_.push_back(here);
    }
  }

  void forget_victims() {
    for (const auto& victim : victims_) {
      auto here = resident_.find(key_numbers_.at(victim.key));
      ASSERT_NE(here, resident_.end()) << "a victim that was not resident";
      ASSERT_EQ(here->second.gen, victim.gen);
      resident_.erase(here);
    }
    victims_.clear();
  }

  void check_sums() {
    auto stats = pool_.stats();
    ASSERT_EQ(stats.pages, resident_.size());
    ASSERT_EQ(stats.filling, filling_.size());
    std::uint64_t bytes = 0;
    for (const auto& [number, here] : resident_)
      bytes += here.length_bytes;
    ASSERT_EQ(stats.page_bytes, bytes);
  }

  std::mt19937_64 random_;
  heap_pool memory_;
  slot_table slots_;
  page_pool pool_;
  std::map<std::uint64_t, page> resident_;
  std::map<page_key, std::uint64_t> key_numbers_;
  std::map<std::uint32_t, std::uint32_t> filling_;
  std::map<std::uint32_t, generation> newest_;
  std::vector<page> pinned_;
  std::vector<evicted> victims_;
};

class page_pool_model : public testing::TestWithParam<eviction_kind> {};

TEST_P(page_pool_model, agrees_with_a_map_of_pages) {
  std::uint64_t seed = std::random_device{}();
  for (auto granules : {100u, 1000u}) {
    SCOPED_TRACE("seed " + std::to_string(seed) + " granules " + std::to_string(granules));
    pool_against_model run(seed, granules, GetParam());
    for (int i = 0; i < 5000 && !HasFatalFailure(); ++i)
      run.step();
    run.finish();
  }
}

INSTANTIATE_TEST_SUITE_P(policies, page_pool_model,
                         testing::Values(eviction_kind::lru, eviction_kind::s3fifo,
                                         eviction_kind::automatic));

void put(page_pool& pool, slot_table slots, slot_id slot, std::uint64_t number,
         std::uint32_t length) {
  const fill page{slot, key_of(number), length, 1};
  slots.fill(page.slot, page.key, page.length_bytes, page.checksum);
  commit_outcome outcome;
  pool.commit({&page, 1}, {&outcome, 1}, fill_origin::producer);
}

/// Puts pages of one length into a pool, twice as many as fit. Returns the share of the pool's
/// bytes that pages of this length have at the end.
double held_share(page_pool& pool, slot_table slots, std::uint64_t& number, std::uint32_t length) {
  std::vector<evicted> victims;
  auto offered = 2 * pool.capacity_bytes() / length + 1;
  for (std::uint64_t i = 0; i < offered; ++i) {
    auto slot = pool.reserve(length, victims);
    EXPECT_TRUE(slot);
    put(pool, slots, *slot, ++number, length);
  }
  std::uint64_t held = 0;
  pool.for_each_page([&](const resident_page& page) {
    EXPECT_EQ(page.length_bytes, length);
    held += page.length_bytes;
  });
  return static_cast<double>(held) / static_cast<double>(pool.capacity_bytes());
}

TEST(page_pool, a_change_of_page_size_wins_back_the_whole_pool) {
  constexpr std::uint32_t granules = 64u << 8; // A pool of 64 MiB, in granules.
  for (auto kind : {eviction_kind::lru, eviction_kind::s3fifo}) {
    heap_pool memory(granules, false);
    page_pool pool(memory.slots(), make_eviction_policy(kind, granules * std::uint64_t{granule}),
                   {});
    std::uint64_t number = 0;
    for (std::uint32_t length :
         {4096u, 1u << 20, 12288u, 65536u, 36864u, 4u << 20, 32769u, 8192u}) {
      auto share = held_share(pool, memory.slots(), number, length);
      std::printf("page %8u bytes: %.2f %% of the pool lost\n", length, 100 * (1 - share));
      // Pages take whole granules, and only whole pages fit into the pool: with these losses this
      // share is the largest possible.
      auto per_page = (length + granule - 1) / granule;
      auto possible = static_cast<double>(granules / per_page) * length / (granules * 4096.0);
      EXPECT_GE(share, possible - 0.005) << length;
    }
  }
}

TEST(page_pool, large_pages_find_room_among_randomly_placed_small_ones) {
  constexpr std::uint32_t granules = 64u << 8;
  heap_pool memory(granules, false);
  page_pool pool(memory.slots(), make_eviction_policy(eviction_kind::lru, granules * 4096ull), {});
  std::mt19937_64 random(7);
  std::vector<evicted> victims;
  std::uint64_t number = 0, kept = 0;
  for (int i = 0; i < 40'000; ++i) {
    auto length = static_cast<std::uint32_t>(random() % 50 == 0 ? 1u << 20 : 1 + random() % 40'000);
    auto slot = pool.reserve(length, victims);
    ASSERT_TRUE(slot);
    put(pool, memory.slots(), *slot, ++number, length);
  }
  pool.for_each_page([&](const resident_page&) { ++kept; });
  auto stats = pool.stats();
  EXPECT_EQ(stats.pages, kept);
  std::printf(
      "mixed sizes: %.1f %% used, %.1f %% exact bytes, %lu of %lu evictions by window\n",
      100.0 * static_cast<double>(stats.used_bytes) / static_cast<double>(stats.capacity_bytes),
      100.0 * static_cast<double>(stats.page_bytes) / static_cast<double>(stats.capacity_bytes),
      stats.window_evictions, stats.evictions);
  EXPECT_GT(stats.used_bytes, stats.capacity_bytes / 10 * 8);
}

} // namespace
} // namespace peercache::storage::page_pool_model_test
