#include "storage/page_pool.hpp"

#include "common/test_guards.hpp"
#include "heap_pool.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <list>

namespace peercache::storage::page_pool_test {
namespace {

constexpr std::uint32_t granule = limits::granule_bytes;

/// A fixture with a pool that evicts by LRU.
class page_pool_test : public testing::Test {
protected:
  void make(std::uint32_t granules, std::uint64_t low = 1, std::uint64_t high = 1) {
    memory = std::make_unique<heap_pool>(granules, false);
    page_pool_options options{.free_low_bytes = low, .free_high_bytes = high};
    pool = std::make_unique<page_pool>(
        memory->slots(),
        make_eviction_policy(eviction_kind::lru, granules * std::uint64_t{granule}), options);
  }

  slot_id reserve(std::uint32_t length) {
    auto slot = pool->reserve(length, victims);
    EXPECT_TRUE(slot) << slot.error().message;
    return *slot;
  }

  fill filled(std::uint64_t number, std::uint32_t length = granule) {
    const fill page{reserve(length), key_of(number), length, std::max<std::uint64_t>(number, 1)};
    memory->slots().fill(page.slot, page.key, page.length_bytes, page.checksum);
    return page;
  }

  commit_outcome commit(const fill& page, fill_origin from = fill_origin::producer) {
    commit_outcome outcome;
    pool->commit({&page, 1}, {&outcome, 1}, from);
    return outcome;
  }

  commit_outcome put(std::uint64_t number, std::uint32_t length = granule) {
    return commit(filled(number, length));
  }

  /// Stores a page as one that was promoted from disk. Returns its slot.
  slot_id promote(std::uint64_t number) {
    const auto outcome = commit(filled(number), fill_origin::copy);
    EXPECT_EQ(outcome.status, page_status::stored);
    return outcome.slot;
  }

  /// Puts the pages of a prefix chain in one commit, the head first.
  void put_chain(std::uint64_t first, std::uint64_t count) {
    std::vector<fill> fills;
    for (auto number = first; number < first + count; ++number)
      fills.push_back(filled(number));
    std::vector<commit_outcome> outcomes(fills.size());
    pool->commit(fills, outcomes, fill_origin::producer);
  }

  bool has(std::uint64_t number) const { return pool->find(key_of(number)).has_value(); }

  std::unique_ptr<heap_pool> memory;
  std::unique_ptr<page_pool> pool;
  std::vector<evicted> victims;
};

TEST_F(page_pool_test, a_scan_of_promoted_pages_flushes_an_eighth_of_the_pool) {
  make(64, 4 * granule, 8 * granule);
  for (std::uint64_t hot = 0; hot < 40; ++hot)
    put(hot);
  for (std::uint64_t cold = 1000; cold < 2000; ++cold) {
    const auto slot = promote(cold);
    memory->slots().count_use(slot); // Counts a use: the read for which the page was promoted.
    pool->fold_uses(8);
    pool->evict_ahead(victims);
  }
  for (std::uint64_t hot = 0; hot < 40; ++hot)
    EXPECT_TRUE(has(hot)) << hot;
}

TEST_F(page_pool_test, a_promoted_page_that_is_read_again_stays) {
  make(64, 4 * granule, 8 * granule);
  const auto slot = promote(7);
  memory->slots().count_use(slot);
  memory->slots().count_use(slot);
  pool->fold_uses(64);
  for (std::uint64_t cold = 1000; cold < 1100; ++cold) {
    promote(cold);
    pool->evict_ahead(victims);
  }
  EXPECT_TRUE(has(7));
  EXPECT_FALSE(has(1000));
}

TEST_F(page_pool_test, promoted_pages_fill_a_pool_that_is_empty_otherwise) {
  make(64);
  for (std::uint64_t cold = 0; cold < 60; ++cold)
    promote(cold);
  for (std::uint64_t cold = 0; cold < 60; ++cold)
    EXPECT_TRUE(has(cold));
}

TEST_F(page_pool_test, a_committed_page_is_found_where_it_lies) {
  make(16);
  auto outcome = put(1, 5000);
  EXPECT_EQ(outcome.status, page_status::stored);
  auto page = pool->find(key_of(1));
  ASSERT_TRUE(page);
  EXPECT_EQ(page->slot, outcome.slot);
  EXPECT_EQ(page->gen, outcome.gen);
  EXPECT_TRUE(page->gen.readable());
  EXPECT_EQ(page->length_bytes, 5000u);
  EXPECT_EQ(page->checksum, 1u);
}

TEST_F(page_pool_test, a_reserved_page_is_not_found_before_its_commit) {
  make(16);
  auto slot = reserve(granule);
  EXPECT_FALSE(memory->slots().contents(slot).gen.readable());
  EXPECT_EQ(pool->stats().filling, 1u);
  EXPECT_EQ(pool->stats().pages, 0u);
}

TEST_F(page_pool_test, a_later_put_of_a_key_has_a_higher_generation_whatever_its_slot) {
  make(16);
  // Uses one slot again and again, so that its generation is much higher than those of other slots.
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(put(1).status, page_status::stored);
    pool->remove(key_of(1));
  }
  auto filler = reserve(granule);
  auto old = put(1);
  pool->remove(key_of(1));
  std::vector<slot_id> others{reserve(granule), reserve(granule)};
  auto fresh = put(1);
  EXPECT_NE(fresh.slot, old.slot);
  EXPECT_GT(fresh.gen, old.gen);
  pool->abandon(filler);
}

TEST_F(page_pool_test, lengths_that_no_page_may_have_are_refused) {
  make(16);
  EXPECT_EQ(pool->reserve(0, victims).error().code, errc::invalid_argument);
  EXPECT_EQ(pool->reserve(limits::page_bytes_max + 1, victims).error().code,
            errc::invalid_argument);
  EXPECT_EQ(pool->reserve(17 * granule, victims).error().code, errc::out_of_memory);
}

TEST_F(page_pool_test, a_key_that_is_here_already_is_a_duplicate_and_its_new_slot_is_free) {
  make(16);
  auto first = put(1);
  auto free_before = pool->stats().free_bytes;
  auto second = put(1);
  EXPECT_EQ(second.status, page_status::duplicate);
  EXPECT_EQ(second.slot, first.slot);
  EXPECT_EQ(second.gen, first.gen);
  EXPECT_EQ(pool->stats().free_bytes, free_before);
  EXPECT_EQ(pool->stats().pages, 1u);
}

TEST_F(page_pool_test, a_key_twice_in_one_put_is_stored_once) {
  make(16);
  const std::vector<fill> fills{filled(1), filled(1)};
  std::vector<commit_outcome> outcomes(2);
  pool->commit(fills, outcomes, fill_origin::producer);
  EXPECT_EQ(outcomes[0].status, page_status::stored);
  EXPECT_EQ(outcomes[1].status, page_status::duplicate);
}

TEST_F(page_pool_test, a_late_commit_or_abandon_changes_nothing) {
  make(16);
  auto slot = reserve(granule);
  EXPECT_TRUE(pool->abandon(slot));
  EXPECT_FALSE(pool->abandon(slot));
  EXPECT_FALSE(pool->abandon({UINT32_MAX}));
  EXPECT_EQ(commit({slot, key_of(1), granule, 1}).status, page_status::refused);
  EXPECT_FALSE(has(1));
  EXPECT_EQ(pool->stats().free_bytes, pool->capacity_bytes());
}

TEST_F(page_pool_test, a_commit_of_another_size_than_reserved_frees_the_slot) {
  make(16);
  EXPECT_EQ(commit({reserve(granule), key_of(1), granule + 1, 1}).status, page_status::bad_size);
  EXPECT_EQ(pool->stats().free_bytes, pool->capacity_bytes());
}

TEST_F(page_pool_test, a_full_pool_evicts_and_tells_what_went) {
  make(4);
  auto first = put(0);
  for (std::uint64_t i = 1; i < 5; ++i)
    put(i);
  ASSERT_EQ(victims.size(), 1u);
  EXPECT_EQ(victims[0].key, key_of(0));
  EXPECT_EQ(victims[0].slot, first.slot);
  EXPECT_EQ(victims[0].gen, first.gen);
  EXPECT_FALSE(has(0));
  EXPECT_TRUE(has(4));
}

TEST_F(page_pool_test, a_chain_loses_its_tail_before_its_head) {
  make(8);
  put_chain(0, 8);
  for (std::uint64_t i = 100; i < 104; ++i)
    put(i);
  for (std::uint64_t i = 0; i < 8; ++i)
    EXPECT_EQ(has(i), i < 4) << i;
}

TEST_F(page_pool_test, a_chain_that_was_put_again_loses_its_new_tail_first) {
  make(8);
  put_chain(0, 2);
  put_chain(100, 2);
  put_chain(0, 4);
  put(200);
  put(201);
  put(202);
  put(203);
  EXPECT_FALSE(has(100));
  EXPECT_FALSE(has(101));
  EXPECT_TRUE(has(0) && has(1) && has(2) && has(3));
  put(204);
  EXPECT_FALSE(has(3));
}

TEST_F(page_pool_test, a_page_that_was_read_gets_a_second_chance) {
  make(4);
  auto first = put(0);
  for (std::uint64_t i = 1; i < 4; ++i)
    put(i);
  memory->slots().count_use(first.slot);
  put(4);
  EXPECT_TRUE(has(0));
  EXPECT_FALSE(has(1));
  EXPECT_EQ(pool->stats().uses, 1u);
}

TEST_F(page_pool_test, a_read_that_no_cpu_saw_counts_when_it_was_of_the_page_that_is_here) {
  make(4);
  auto first = put(0);
  auto second = put(1);
  for (std::uint64_t i = 2; i < 4; ++i)
    put(i);
  EXPECT_TRUE(pool->count_use(first.slot, first.gen));
  EXPECT_FALSE(pool->count_use(second.slot, {second.gen.value + 2})) << "of another filling";
  EXPECT_FALSE(pool->count_use(second.slot, {second.gen.value + 1})) << "of none";
  EXPECT_FALSE(pool->count_use({4}, first.gen)) << "of no slot";
  EXPECT_FALSE(pool->count_use({0xffffffff}, first.gen));
  put(4);
  EXPECT_TRUE(has(0));
  EXPECT_FALSE(has(1));
  EXPECT_FALSE(pool->count_use(second.slot, second.gen)) << "evicted";
}

TEST_F(page_pool_test, folding_turns_counted_reads_into_touches_with_the_head_last) {
  make(4);
  put_chain(0, 4);
  for (std::uint64_t i = 0; i < 4; ++i)
    memory->slots().count_use(pool->find(key_of(i))->slot);
  pool->fold_uses(4);
  EXPECT_EQ(pool->stats().uses, 4u);
  put(9);
  EXPECT_FALSE(has(3));
  EXPECT_TRUE(has(0));
}

TEST_F(page_pool_test, folding_looks_at_no_more_pages_than_it_may) {
  make(100);
  for (std::uint64_t i = 0; i < 100; ++i)
    memory->slots().count_use(put(i).slot);
  pool->fold_uses(30);
  EXPECT_EQ(pool->stats().uses, 30u);
  pool->fold_uses(30);
  EXPECT_EQ(pool->stats().uses, 60u);
}

TEST_F(page_pool_test, a_pinned_page_waits_in_limbo_and_is_freed_after_unpin) {
  make(2);
  auto page = put(1);
  auto slots = memory->slots();
  ASSERT_EQ(slots.pin_if(page.slot, page.gen, key_of(1), granule), page_status::hit);
  ASSERT_TRUE(pool->remove(key_of(1)));
  EXPECT_EQ(pool->stats().limbo, 1u);
  EXPECT_NE(reserve(granule), page.slot);
  EXPECT_FALSE(pool->reserve(granule, victims));
  slots.unpin(page.slot);
  EXPECT_EQ(reserve(granule), page.slot);
  EXPECT_EQ(pool->stats().limbo, 0u);
}

TEST_F(page_pool_test, without_the_pin_guard_a_pinned_slot_is_handed_out) {
  make(1);
  auto page = put(1);
  ASSERT_EQ(memory->slots().pin_if(page.slot, page.gen, key_of(1), granule), page_status::hit);
  EXPECT_FALSE(pool->reserve(granule, victims));
  guard_switched_off off(guard::pin);
  EXPECT_EQ(reserve(granule), page.slot);
}

TEST_F(page_pool_test, evicting_ahead_starts_at_the_low_and_stops_at_the_high_watermark) {
  make(100, 10 * granule, 20 * granule);
  for (std::uint64_t i = 0; i < 90; ++i)
    put(i);
  EXPECT_FALSE(pool->evict_ahead(victims));
  EXPECT_TRUE(victims.empty());
  put(90);
  EXPECT_FALSE(pool->evict_ahead(victims));
  EXPECT_EQ(victims.size(), 11u);
  EXPECT_EQ(pool->stats().free_bytes, 20u * granule);
}

TEST_F(page_pool_test, pages_in_limbo_count_as_coming_room) {
  make(10, 5 * granule, 5 * granule);
  auto slots = memory->slots();
  for (std::uint64_t i = 0; i < 10; ++i) {
    auto page = put(i);
    ASSERT_EQ(slots.pin_if(page.slot, page.gen, key_of(i), granule), page_status::hit);
  }
  EXPECT_FALSE(pool->evict_ahead(victims));
  EXPECT_FALSE(pool->evict_ahead(victims));
  EXPECT_EQ(victims.size(), 5u);
  EXPECT_EQ(pool->stats().limbo, 5u);
}

TEST_F(page_pool_test, a_window_spares_pages_that_are_filled_or_pinned) {
  make(64);
  std::vector<commit_outcome> pages;
  for (std::uint64_t i = 0; i < 63; ++i)
    pages.push_back(put(i));
  auto filling = reserve(granule);
  auto slots = memory->slots();
  ASSERT_EQ(slots.pin_if(pages[20].slot, pages[20].gen, key_of(20), granule), page_status::hit);
  std::vector<slot_id> large;
  for (int i = 0; i < 2; ++i)
    large.push_back(reserve(16 * granule));
  EXPECT_FALSE(pool->reserve(32 * granule, victims));
  for (auto slot : large) {
    EXPECT_FALSE(slot.value <= filling.value && filling.value < slot.value + 16);
    EXPECT_FALSE(slot.value <= pages[20].slot.value && pages[20].slot.value < slot.value + 16);
  }
  EXPECT_TRUE(pool->abandon(filling));
}

TEST_F(page_pool_test, a_page_that_is_being_sent_is_not_the_first_to_go) {
  make(4);
  auto first = put(0);
  for (std::uint64_t i = 1; i < 4; ++i)
    put(i);
  auto slots = memory->slots();
  ASSERT_EQ(slots.pin_if(first.slot, first.gen, key_of(0), granule), page_status::hit);
  put(4);
  EXPECT_TRUE(has(0));
  EXPECT_FALSE(has(1));
}

TEST_F(page_pool_test, a_pool_whose_slots_are_all_being_filled_refuses) {
  make(2 * limits::granules_per_page_max);
  for (int i = 0; i < 2; ++i)
    reserve(limits::page_bytes_max);
  for (int i = 0; i < 100; ++i)
    EXPECT_FALSE(pool->reserve(granule, victims));
  EXPECT_EQ(pool->stats().reserves_refused, 100u);
  EXPECT_TRUE(victims.empty());
}

TEST_F(page_pool_test, for_each_page_visits_the_readable_pages) {
  make(64);
  for (std::uint64_t i = 1; i < 6; ++i)
    put(i, static_cast<std::uint32_t>(i * granule + 1));
  reserve(granule);
  pool->remove(key_of(2));
  std::vector<std::uint64_t> seen;
  pool->for_each_page([&](const resident_page& page) {
    EXPECT_EQ(page.key, key_of(page.checksum));
    seen.push_back(page.checksum);
  });
  std::ranges::sort(seen);
  EXPECT_EQ(seen, (std::vector<std::uint64_t>{1, 3, 4, 5}));
}

TEST_F(page_pool_test, a_change_of_page_size_gives_up_old_pages_before_new_ones) {
  make(256);
  for (std::uint64_t number = 0; number < 256; ++number)
    put(number);
  // The new pages take three quarters of the pool, so none of them has to give way to another.
  for (std::uint64_t number = 1000; number < 1012; ++number)
    put(number, 16 * granule);
  for (std::uint64_t number = 1000; number < 1012; ++number)
    EXPECT_TRUE(has(number)) << number;
}

} // namespace
} // namespace peercache::storage::page_pool_test
