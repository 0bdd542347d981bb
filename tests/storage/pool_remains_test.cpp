#include "storage/pool_remains.hpp"

#include "common/test_guards.hpp"
#include "left_pool.hpp"

#include <optional>

namespace peercache::storage::pool_remains_test {
namespace {

constexpr std::uint32_t granules = 256;
constexpr std::uint32_t large = 3 * limits::granule_bytes - 100;

/// A pool on the heap after the death of its first process: the pool's memory is left, but not the
/// process's own state of the pool.
class pool_remains_test : public testing::Test {
protected:
  slot_id put(std::uint64_t number, std::uint32_t length_bytes = large) {
    return storage::put(*before, slots, number, length_bytes);
  }
  /// The slot's entry as it lies in memory.
  slot_entry& entry(slot_id slot) { return memory.entries()[slot.value]; }

  heap_pool memory{granules};
  slot_table slots = memory.slots();
  std::unique_ptr<page_pool> before = pool_of(slots);
};

TEST_F(pool_remains_test, all_pages_are_adopted_under_their_generations) {
  std::vector<resident_page> pages;
  for (std::uint64_t number = 1; number <= 40; ++number)
    put(number, static_cast<std::uint32_t>(number * 300));
  before->for_each_page([&](const resident_page& page) { pages.push_back(page); });
  const auto stats = before->stats();
  adopted_pool after(slots);
  EXPECT_EQ(after.adopted, 40u);
  EXPECT_EQ(after.remains.impossible, 0u);
  EXPECT_EQ(after.pool->newest(), before->newest());
  for (const auto& page : pages)
    EXPECT_EQ(after.pool->find(page.key)->gen, page.gen);
  for (std::uint64_t number = 1; number <= 40; ++number)
    EXPECT_TRUE(holds(*after.pool, slots, number, static_cast<std::uint32_t>(number * 300)));
  EXPECT_EQ(after.pool->stats().free_bytes, stats.free_bytes);
  EXPECT_EQ(after.pool->stats().page_bytes, stats.page_bytes);
  EXPECT_EQ(after.pool->stats().filling, 0u);
}

TEST_F(pool_remains_test, an_adopted_pool_takes_new_pages_and_gives_old_ones_up_oldest_first) {
  for (std::uint64_t number = 1; number <= 60; ++number)
    put(number);
  adopted_pool after(slots);
  for (std::uint64_t number = 100; number < 160; ++number)
    storage::put(*after.pool, slots, number, large);
  for (std::uint64_t number = 100; number < 160; ++number)
    EXPECT_TRUE(holds(*after.pool, slots, number, large)) << number;
  EXPECT_FALSE(after.pool->find(key_of(1)));
  std::uint32_t pages = 0;
  after.pool->for_each_page([&](const resident_page& page) {
    ++pages;
    EXPECT_EQ(slots.check(page.slot, page.gen, page.key, page.length_bytes), page_status::hit);
  });
  EXPECT_EQ(pages, after.pool->stats().pages);
  EXPECT_GT(after.pool->newest(), before->newest());
}

/// A client that found a page by the host index may still copy it after the pool's process has
/// died. If that process died while it published or dropped the page, the copy must not count as
/// complete.
TEST_F(pool_remains_test, what_was_being_published_or_dropped_is_no_longer_complete_for_anybody) {
  std::vector<evicted> victims;
  const auto slot = *before->reserve(large, victims);
  const auto filling = slots.fill(slot, key_of(7), large, 1);
  ASSERT_TRUE(filling);
  // Between two of their stores, `publish` and `drop` leave an entry in this state.
  entry(slot).filling = 0;
  ASSERT_EQ(slots.check(slot, *filling, key_of(7), large), page_status::hit);
  adopted_pool after(slots);
  EXPECT_EQ(slots.check(slot, *filling, key_of(7), large), page_status::stale);
  EXPECT_FALSE(slots.still_readable(slot, *filling));
}

TEST_F(pool_remains_test, nothing_is_found_before_it_is_adopted_and_its_room_is_not_taken) {
  for (std::uint64_t number = 1; number <= 85; ++number)
    put(number); // The 85 pages fill 255 granules, three each, so that only one granule is free.
  auto pool = pool_of(slots);
  pool->claim(survey(slots));
  EXPECT_FALSE(pool->find(key_of(1)));
  std::vector<evicted> victims;
  EXPECT_EQ(pool->reserve(large, victims).error().code, errc::out_of_memory);
  EXPECT_TRUE(victims.empty());
}

TEST_F(pool_remains_test, flipped_bytes_are_not_adopted_and_without_the_guard_they_are) {
  const auto torn = put(1);
  const auto last = put(2);
  put(3);
  slots.bytes(torn, large)[large / 2] ^= std::byte{1};
  slots.bytes(last, large)[large - 1] ^= std::byte{0x80};
  {
    guard_switched_off off(guard::adoption);
    remains_check check(slots, survey(slots).extents);
    for (const auto& page : check.next(UINT64_MAX))
      EXPECT_TRUE(page.intact);
  }
  adopted_pool after(slots);
  EXPECT_EQ(after.adopted, 1u);
  EXPECT_FALSE(after.pool->find(key_of(1)));
  EXPECT_FALSE(after.pool->find(key_of(2)));
  EXPECT_TRUE(holds(*after.pool, slots, 3, large));
  EXPECT_FALSE(slots.page_in(torn));
  EXPECT_EQ(after.pool->stats().filling, 0u);
  after.pool->scrub(UINT64_MAX);
  EXPECT_TRUE(is_all_zero(slots.bytes(torn, large))) << "whosever they are";
  // All 84 pages fit into the pool only if the room of the torn page is used again.
  for (std::uint64_t number = 10; number < 94; ++number)
    storage::put(*after.pool, slots, number, large);
  EXPECT_EQ(after.pool->stats().evictions, 0u);
}

TEST_F(pool_remains_test, entries_that_can_be_no_page_are_taken_back) {
  const auto too_long = put(1);
  const auto empty = put(2);
  const auto other_length = put(3);
  const auto without_checksum = put(4);
  const auto not_even = put(5);
  put(6);
  entry(too_long).length_bytes = granules * limits::granule_bytes + 1;
  entry(empty).length_bytes = 0;
  entry(other_length).length_bytes = large - 1;
  entry(without_checksum).checksum = 0;
  entry(not_even).generation.fetch_add(1);
  adopted_pool after(slots);
  EXPECT_EQ(after.adopted, 1u);
  EXPECT_EQ(after.remains.impossible, 3u);
  EXPECT_TRUE(holds(*after.pool, slots, 6, large));
  for (const auto slot : {too_long, empty, other_length, without_checksum, not_even})
    EXPECT_FALSE(slots.page_in(slot));
  EXPECT_EQ(after.pool->stats().filling, 0u);
}

TEST_F(pool_remains_test, of_two_pages_in_one_place_the_second_is_none) {
  const auto first = put(1);
  put(2);
  // Makes an entry of a page that looks complete, but lies in the middle of another page.
  const slot_id within{first.value + 1};
  auto& stray = entry(within);
  const auto bytes = slots.bytes(within, 100);
  stray.key = key_of(3);
  stray.length_bytes = 100;
  stray.checksum = checksum_of(bytes);
  stray.generation = 8;
  adopted_pool after(slots);
  EXPECT_EQ(after.adopted, 2u);
  EXPECT_EQ(after.remains.impossible, 1u);
  EXPECT_TRUE(holds(*after.pool, slots, 1, large));
  EXPECT_FALSE(after.pool->find(key_of(3)));
  EXPECT_FALSE(slots.page_in(within));
}

TEST_F(pool_remains_test, of_a_page_that_was_set_again_meanwhile_the_new_one_stays) {
  const auto old = put(1);
  auto pool = pool_of(slots);
  const auto remains = survey(slots);
  pool->claim(remains);
  const auto next = storage::put(*pool, slots, 1, large);
  EXPECT_TRUE(pool->adopt({&old, 1}).empty());
  EXPECT_EQ(pool->find(key_of(1))->slot, next);
  EXPECT_FALSE(slots.page_in(old));
  EXPECT_EQ(pool->stats().pages, 1u);
  EXPECT_EQ(pool->stats().filling, 0u);
}

TEST_F(pool_remains_test, pins_of_dead_readers_hold_nothing) {
  const auto slot = put(1);
  const auto page = *before->find(key_of(1));
  ASSERT_EQ(slots.pin_if(slot, page.gen, page.key, large), page_status::hit);
  adopted_pool after(slots);
  EXPECT_EQ(slots.pins(slot), 0u);
  EXPECT_TRUE(after.pool->remove(key_of(1)));
  EXPECT_EQ(after.pool->stats().limbo, 0u);
}

TEST_F(pool_remains_test, what_is_being_filled_is_kept_until_it_is_given_back) {
  put(1);
  // An engine fills this slot. It outlives the pool's process, and has not committed the page.
  const auto half = filled(*before, slots, 2, large);
  put(3);
  const auto remains = survey(slots);
  ASSERT_EQ(remains.extents.size(), 3u);
  EXPECT_EQ(remains.extents[1].as, claimed_extent::use::being_filled);
  EXPECT_EQ(remains.extents[1].slot, half.slot);
  EXPECT_EQ(remains.extents[1].granules, 3u);
  auto pool = pool_of(slots);
  pool->claim(remains);
  for (std::uint64_t number = 10; number < 92; ++number)
    EXPECT_NE(storage::put(*pool, slots, number, large), half.slot);
  // The next process does not trust an engine that goes on filling, because the engine may have
  // other memory mapped.
  EXPECT_FALSE(slots.fill(half.slot, half.key, half.length_bytes, half.checksum));
  EXPECT_FALSE(slots.page_in(half.slot));
  pool->give_back(half.slot);
  EXPECT_EQ(storage::put(*pool, slots, 100, large), half.slot);
  EXPECT_TRUE(holds(*pool, slots, 100, large));
}

TEST_F(pool_remains_test, what_is_being_filled_is_known_to_the_next_one_too) {
  const auto half = filled(*before, slots, 2, large);
  EXPECT_EQ(survey(slots).extents.size(), 1u);
  // Surveys the pool again, as a further process does when the next one was killed, too.
  const auto again = survey(slots);
  ASSERT_EQ(again.extents.size(), 1u);
  EXPECT_EQ(again.extents[0].slot, half.slot);
  EXPECT_EQ(again.extents[0].granules, 3u);
  auto pool = pool_of(slots);
  pool->claim(again);
  pool->give_back(half.slot);
  EXPECT_TRUE(survey(slots).extents.empty());
}

TEST_F(pool_remains_test, what_was_removed_is_zeroed_by_whoever_comes_to_it) {
  put(1);
  const auto removed = put(2);
  put(3);
  ASSERT_TRUE(before->remove(key_of(2), bytes_after::zeroed));
  // Zeroes only a part of the removed page, as a process does that is killed while it scrubs.
  before->scrub(5000);
  std::optional<adopted_pool> after;
  // The first of the two successors is killed, too, before it zeroes anything.
  for (int killed = 0; killed < 2; ++killed) {
    after.emplace(slots);
    EXPECT_EQ(after->adopted, 2u);
    EXPECT_EQ(after->pool->stats().limbo, 1u);
    EXPECT_EQ(after->pool->stats().used_bytes, 9 * limits::granule_bytes) << "it is not free";
  }
  EXPECT_FALSE(is_all_zero(slots.bytes(removed, large)));
  EXPECT_FALSE(slots.page_in(removed));
  after->pool->scrub(UINT64_MAX);
  EXPECT_TRUE(is_all_zero(slots.bytes(removed, large)));
  EXPECT_EQ(after->pool->stats().used_bytes, 6 * limits::granule_bytes);
  EXPECT_EQ(storage::put(*after->pool, slots, 4, large), removed);
  EXPECT_TRUE(holds(*after->pool, slots, 4, large));
}

TEST_F(pool_remains_test, what_was_being_filled_is_zeroed_where_that_is_wanted) {
  before = pool_of(slots, {.scrub_evicted = true});
  put(1);
  const auto filling = filled(*before, slots, 2, large).slot;
  const auto dropped = filled(*before, slots, 3, large).slot;
  ASSERT_TRUE(before->abandon(dropped));
  const auto ending = filled(*before, slots, 4, large).slot;
  // Between two of their stores, `publish` and `drop` leave an entry in this state.
  entry(ending).filling = 0;
  put(5);
  for (int killed = 0; killed < 2; ++killed) {
    adopted_pool after(slots, {.scrub_evicted = true});
    EXPECT_EQ(after.adopted, 2u);
    after.end_fills();
    EXPECT_EQ(after.pool->stats().free_bytes,
              (granules - (killed == 0 ? 15 : 12)) * limits::granule_bytes);
    if (killed == 0)
      continue; // This process is killed before it zeroes anything.
    EXPECT_FALSE(is_all_zero(slots.bytes(filling, large)));
    after.pool->scrub(UINT64_MAX);
    EXPECT_TRUE(is_all_zero(slots.bytes(filling, large)));
    EXPECT_TRUE(is_all_zero(slots.bytes(dropped, large)));
    EXPECT_EQ(after.pool->stats().free_bytes, (granules - 6) * limits::granule_bytes);
  }
  EXPECT_EQ(survey(slots).extents.size(), 2u) << "the next process finds the two pages alone";
}

TEST(pool_remains, no_fill_lies_in_two_extents) {
  constexpr std::uint32_t fill_bytes = 24u << 20;
  heap_pool memory{4 * fill_bytes / limits::granule_bytes, false};
  auto slots = memory.slots();
  const auto before = pool_of(slots);
  std::vector<evicted> victims;
  for (int i = 0; i < 4; ++i)
    ASSERT_TRUE(before->reserve(fill_bytes, victims));
  const auto found = survey(slots).extents;
  EXPECT_EQ(found.size(), 2u) << "an extent has no more granules than the longest page";
  for (const auto& each : found)
    EXPECT_NE(slots.granules_being_filled(each.slot), 0u) << "an extent begins where a fill does";
}

TEST_F(pool_remains_test, what_was_being_published_is_zeroed_where_that_is_wanted) {
  const auto slot = filled(*before, slots, 1, large).slot;
  entry(slot).filling = 0;
  adopted_pool after(slots, {.scrub_evicted = true});
  after.end_fills();
  after.pool->scrub(UINT64_MAX);
  EXPECT_TRUE(is_all_zero(slots.bytes(slot, large)));
  EXPECT_EQ(after.pool->stats().free_bytes, after.pool->capacity_bytes());
}

TEST_F(pool_remains_test, what_was_removed_and_zeroed_is_free) {
  put(1);
  ASSERT_TRUE(before->remove(key_of(1), bytes_after::zeroed));
  before->scrub(UINT64_MAX);
  EXPECT_TRUE(survey(slots).extents.empty());
}

TEST_F(pool_remains_test, nothing_is_zeroed_where_an_entry_says_so_that_can_be_none) {
  const auto slot = put(1);
  auto& within = entry({slot.value + 1});
  within.length_bytes = 100;
  within.generation = 7 | std::uint64_t{1} << 63;
  auto& too_long = entry({slot.value + 10});
  too_long.length_bytes = granules * limits::granule_bytes;
  too_long.generation = 8 | std::uint64_t{1} << 63;
  adopted_pool after(slots);
  EXPECT_EQ(after.remains.extents.size(), 1u);
  after.pool->scrub(UINT64_MAX);
  EXPECT_TRUE(holds(*after.pool, slots, 1, large));
  EXPECT_TRUE(after.pool->remove(key_of(1)));
  for (std::uint64_t number = 10; number < 10 + granules; ++number)
    storage::put(*after.pool, slots, number, 100);
  EXPECT_EQ(after.pool->stats().evictions, 0u) << "their entries can be used again";
}

TEST_F(pool_remains_test, what_was_given_up_is_free) {
  put(1);
  put(2);
  ASSERT_TRUE(before->remove(key_of(1)));
  ASSERT_TRUE(before->abandon(filled(*before, slots, 3, large).slot));
  const auto remains = survey(slots);
  ASSERT_EQ(remains.extents.size(), 1u);
  EXPECT_EQ(remains.extents[0].as, claimed_extent::use::page);
}

} // namespace
} // namespace peercache::storage::pool_remains_test
