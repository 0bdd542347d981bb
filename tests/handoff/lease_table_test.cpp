#include "handoff/lease_table.hpp"

#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>

namespace peercache::handoff::lease_table_test {
namespace {

constexpr incarnation me{7, 8};

std::uint64_t generation_of(const slot_entry& entry) {
  return entry.generation.load();
}

TEST(lease_table, a_lease_stands_in_its_entry_until_it_is_revoked) {
  slot_entry entries[2] = {};
  lease_table table(entries, me);
  const auto taken = table.take(42);
  ASSERT_TRUE(taken);
  const auto& entry = entries[taken->slot.value];
  EXPECT_TRUE(taken->gen.readable());
  EXPECT_EQ(generation_of(entry), taken->gen.value);
  EXPECT_EQ(entry.key, taken->key);
  EXPECT_EQ(entry.key, lease_key(42, me, 1));
  EXPECT_TRUE(table.stands(*taken));
  table.revoke(*taken);
  EXPECT_EQ(generation_of(entry), taken->gen.value + 1);
  EXPECT_FALSE(table.stands(*taken));
  EXPECT_EQ(table.taken(), 0u);
}

TEST(lease_table, a_full_table_gives_nothing) {
  slot_entry entries[2] = {};
  lease_table table(entries, me);
  const auto first = table.take(1);
  const auto second = table.take(2);
  ASSERT_TRUE(first && second);
  EXPECT_NE(first->slot, second->slot);
  EXPECT_FALSE(table.take(3));
  table.revoke(*first);
  EXPECT_TRUE(table.take(3));
}

TEST(lease_table, revoking_an_old_lease_leaves_the_new_one_of_its_entry) {
  slot_entry entries[1] = {};
  lease_table table(entries, me);
  const auto old = table.take(1);
  table.revoke(*old);
  const auto renewed = table.take(1);
  ASSERT_TRUE(renewed);
  EXPECT_GT(renewed->gen, old->gen);
  EXPECT_NE(renewed->key, old->key) << "the same room again";
  table.revoke(*old);
  EXPECT_TRUE(table.stands(*renewed));
  EXPECT_EQ(table.taken(), 1u);
}

TEST(lease_table, a_lease_that_nobody_took_is_none) {
  slot_entry entries[1] = {};
  lease_table table(entries, me);
  EXPECT_FALSE(table.stands({{0}, {1}, {}})) << "an odd generation";
  EXPECT_FALSE(table.stands({{9}, {2}, {}})) << "no such entry";
  table.revoke({{9}, {2}, {}});
  table.revoke({{0}, {1}, {}});
  EXPECT_TRUE(table.take(1));
  EXPECT_FALSE(table.take(2)) << "no entry was given back twice";
}

TEST(lease_table, begins_and_ends_without_a_lease) {
  slot_entry entries[2] = {};
  entries[0].generation = 8;
  {
    lease_table table(entries, me);
    EXPECT_EQ(generation_of(entries[0]), 9u);
    EXPECT_EQ(generation_of(entries[1]), 1u);
    EXPECT_EQ(table.take(1)->gen.value, 10u);
  }
  EXPECT_EQ(generation_of(entries[0]), 11u);
}

/// Compares a lease_table with a model that remembers all leases: the generation of an entry must
/// only grow, and only a lease that still stands may have its entry's generation.
TEST(lease_table, agrees_with_a_model) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    slot_entry entries[5] = {};
    lease_table table(entries, me);
    std::vector<lease> standing, ended;
    std::uint64_t highest[5] = {};
    for (int step = 0; step < 300; ++step) {
      if (random() % 2 == 0) {
        const auto taken = table.take(random() % 3);
        ASSERT_EQ(taken.has_value(), standing.size() < 5);
        if (!taken)
          continue;
        ASSERT_GT(taken->gen.value, std::exchange(highest[taken->slot.value], taken->gen.value));
        standing.push_back(*taken);
      } else if (!standing.empty()) {
        const auto at = random() % standing.size();
        table.revoke(standing[at]);
        ended.push_back(standing[at]);
        standing.erase(standing.begin() + static_cast<long>(at));
      }
      if (!ended.empty())
        table.revoke(ended[random() % ended.size()]);
      ASSERT_EQ(table.taken(), standing.size());
      for (const auto& lease : standing)
        ASSERT_TRUE(table.stands(lease));
      for (const auto& lease : ended)
        ASSERT_FALSE(table.stands(lease));
    }
  }
}

/// A reading thread does what remote READs do: it reads the payload and, after a fence, the entry.
/// It must never accept bytes that were written after `revoke`.
TEST(lease_table, a_reader_never_takes_bytes_of_a_later_owner) {
  slot_entry entries[1] = {};
  lease_table table(entries, me);
  auto taken = table.take(1);
  std::atomic<std::uint64_t> page{taken->gen.value};
  std::atomic<std::uint64_t> lease_generation{taken->gen.value};
  std::atomic<int> judged{0};
  std::atomic<bool> wrong{false};
  std::thread reader([&] {
    while (judged < 20'000) {
      const auto gen = lease_generation.load();
      const auto bytes = page.load(std::memory_order_relaxed);
      std::atomic_thread_fence(std::memory_order_seq_cst);
      if (entries[0].generation.load() == gen && bytes != gen)
        wrong = true;
      ++judged;
    }
  });
  while (judged < 20'000) {
    table.revoke(*taken);
    page.store(1, std::memory_order_relaxed); // Plays another owner, which writes its bytes.
    taken = table.take(1);
    page.store(taken->gen.value, std::memory_order_relaxed);
    lease_generation = taken->gen.value;
  }
  reader.join();
  EXPECT_FALSE(wrong);
}

} // namespace
} // namespace peercache::handoff::lease_table_test
