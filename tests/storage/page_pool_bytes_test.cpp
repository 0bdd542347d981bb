#include "common/test_guards.hpp"
#include "left_pool.hpp"

namespace peercache::storage::page_pool_bytes_test {
namespace {

constexpr std::uint32_t granules = 8;
constexpr std::uint32_t length = 2 * limits::granule_bytes;

/// A pool that four pages fill, for tests of the bytes that a removed page leaves in its slot.
class page_pool_bytes : public testing::Test {
protected:
  bool is_zero(slot_id slot, std::uint64_t offset_bytes, std::uint64_t size_bytes) {
    return is_all_zero(slots.bytes(slot, length).subspan(offset_bytes, size_bytes));
  }
  void remove(std::uint64_t number) {
    EXPECT_TRUE(pool->remove(key_of(number), bytes_after::zeroed));
  }
  commit_outcome commit(const fill& page) {
    commit_outcome outcome;
    pool->commit({&page, 1}, {&outcome, 1}, fill_origin::producer);
    return outcome;
  }
  /// Returns the commit record of a writer that got the slot of a removed page, wrote nothing to
  /// the slot, and claims the removed page's checksum.
  fill leftover_of(std::uint64_t number) {
    const auto left = put(*pool, slots, number, length);
    const auto checksum = pool->find(key_of(number))->checksum;
    pool->remove(key_of(number));
    std::vector<evicted> victims;
    const auto slot = *pool->reserve(length, victims);
    EXPECT_EQ(slot, left);
    return {slot, key_of(100), length, checksum};
  }

  heap_pool memory{granules};
  slot_table slots = memory.slots();
  std::unique_ptr<page_pool> pool = pool_of(slots);
};

TEST_F(page_pool_bytes, without_a_checksum_get_one_before_anybody_has_the_page) {
  auto page = filled(*pool, slots, 1, length);
  const auto computed = std::exchange(page.checksum, 0);
  slots.fill(page.slot, page.key, page.length_bytes, 0);
  const auto outcome = commit(page);
  EXPECT_EQ(outcome.checksum, computed);
  EXPECT_EQ(slots.contents(page.slot).checksum, computed);
  EXPECT_EQ(pool->find(key_of(1))->checksum, computed);
}

TEST_F(page_pool_bytes, of_a_removed_page_are_zeroed_piece_by_piece_before_the_slot_is_free) {
  const auto slot = put(*pool, slots, 1, length);
  remove(1);
  EXPECT_EQ(pool->stats().free_bytes, pool->capacity_bytes() - length);
  EXPECT_TRUE(pool->scrub(5000));
  EXPECT_TRUE(is_zero(slot, 0, 5000));
  EXPECT_FALSE(is_zero(slot, 5000, length - 5000));
  EXPECT_EQ(pool->stats().free_bytes, pool->capacity_bytes() - length);
  EXPECT_FALSE(pool->scrub(5000));
  EXPECT_TRUE(is_zero(slot, 0, length));
  EXPECT_EQ(pool->stats().free_bytes, pool->capacity_bytes());
  EXPECT_EQ(pool->stats().limbo, 0u);
}

TEST_F(page_pool_bytes, of_a_removed_page_stay_while_a_reader_sends_them) {
  const auto slot = put(*pool, slots, 1, length);
  const auto other = put(*pool, slots, 2, length);
  const auto page = *pool->find(key_of(1));
  ASSERT_EQ(slots.pin_if(slot, page.gen, page.key, length), page_status::hit);
  remove(1);
  remove(2);
  EXPECT_FALSE(pool->scrub(UINT64_MAX));
  EXPECT_FALSE(is_zero(slot, 0, length));
  EXPECT_TRUE(is_zero(other, 0, length)) << "it waits for no other page's readers";
  slots.unpin(slot);
  pool->scrub(UINT64_MAX);
  EXPECT_TRUE(is_zero(slot, 0, length));
}

TEST_F(page_pool_bytes, of_a_removed_page_make_room_in_a_full_pool_at_once) {
  for (std::uint64_t number = 1; number <= 4; ++number)
    put(*pool, slots, number, length);
  const auto slot = pool->find(key_of(3))->slot;
  remove(3);
  std::vector<evicted> victims;
  const auto next = pool->reserve(length, victims);
  ASSERT_TRUE(next);
  EXPECT_EQ(*next, slot);
  EXPECT_TRUE(is_zero(slot, 0, length));
  EXPECT_TRUE(victims.empty());
}

TEST_F(page_pool_bytes, that_a_page_before_left_are_no_page_of_who_has_written_none) {
  for (const bool with_checksum : {false, true}) {
    auto page = leftover_of(1);
    page.checksum = with_checksum ? page.checksum : 0;
    EXPECT_EQ(commit(page).status, page_status::refused);
    EXPECT_FALSE(pool->find(page.key));
    EXPECT_EQ(pool->stats().free_bytes, pool->capacity_bytes()) << "its slot is free";
  }
  guard_switched_off off(guard::filled);
  EXPECT_EQ(commit(leftover_of(1)).status, page_status::stored);
}

TEST_F(page_pool_bytes, are_of_the_page_that_their_filler_has_named_and_of_no_other) {
  for (const int other : {1, 2, 3}) {
    auto page = filled(*pool, slots, 1, length);
    page.key = other == 1 ? key_of(2) : page.key;
    page.checksum += other == 2 ? 1 : 0;
    page.length_bytes -= other == 3 ? 1 : 0;
    EXPECT_EQ(commit(page).status, page_status::refused) << other;
    EXPECT_EQ(pool->stats().pages, 0u);
  }
}

TEST_F(page_pool_bytes, of_an_evicted_page_are_left_to_the_next_one_to_overwrite) {
  const auto slot = put(*pool, slots, 1, length);
  EXPECT_TRUE(pool->remove(key_of(1)));
  EXPECT_EQ(pool->stats().free_bytes, pool->capacity_bytes());
  EXPECT_FALSE(is_zero(slot, 0, length));
}

/// A pool whose owner wants all bytes zeroed before their slots are free.
class page_pool_bytes_scrubbed : public page_pool_bytes {
protected:
  page_pool_bytes_scrubbed() {
    pool = pool_of(slots,
                   {.free_low_bytes = length, .free_high_bytes = length, .scrub_evicted = true});
  }
  void fill_up() {
    for (std::uint64_t number = 1; number <= 4; ++number)
      put(*pool, slots, number, length);
  }
  /// Evicts the oldest page and returns its slot.
  slot_id evict_one(const page_pool::last_look& look = nullptr) {
    std::vector<evicted> victims;
    pool->evict_ahead(victims, look);
    EXPECT_EQ(victims.size(), 1u);
    return victims.at(0).slot;
  }
};

TEST_F(page_pool_bytes_scrubbed, of_an_evicted_page_are_zeroed_before_the_slot_is_free) {
  fill_up();
  const auto slot = evict_one();
  EXPECT_NE(slots.granules_to_zero(slot), 0u) << "the pool's next owner is to zero them";
  EXPECT_TRUE(pool->scrub(5000));
  EXPECT_EQ(pool->stats().free_bytes, 0u);
  EXPECT_FALSE(pool->scrub(UINT64_MAX));
  EXPECT_TRUE(is_zero(slot, 0, length));
  EXPECT_EQ(slots.granules_to_zero(slot), 0u);
  EXPECT_EQ(pool->stats().free_bytes, length);
}

TEST_F(page_pool_bytes_scrubbed, of_an_evicted_page_stay_while_a_reader_sends_them) {
  fill_up();
  const auto slot = evict_one([this](const resident_page& page) {
    EXPECT_EQ(slots.pin_if(page.slot, page.gen, page.key, length), page_status::hit);
  });
  EXPECT_FALSE(pool->scrub(UINT64_MAX));
  EXPECT_FALSE(is_zero(slot, 0, length));
  slots.unpin(slot);
  pool->scrub(UINT64_MAX);
  EXPECT_TRUE(is_zero(slot, 0, length));
}

/// A reserve zeroes its victims at once, and where all pages are read a page that is read is among
/// them.
TEST_F(page_pool_bytes_scrubbed, of_a_reserve_s_victim_stay_while_a_reader_sends_them) {
  fill_up();
  pool->for_each_page([this](const resident_page& page) {
    EXPECT_EQ(slots.pin_if(page.slot, page.gen, page.key, length), page_status::hit);
  });
  std::vector<evicted> victims;
  EXPECT_FALSE(pool->reserve(length, victims));
  EXPECT_FALSE(victims.empty());
  for (const auto& page : victims)
    EXPECT_FALSE(is_zero(page.slot, 0, length));
  for (std::uint32_t first = 0; first < granules; first += 2)
    slots.unpin({first});
  pool->scrub(UINT64_MAX);
  for (const auto& page : victims)
    EXPECT_TRUE(is_zero(page.slot, 0, length));
}

TEST_F(page_pool_bytes_scrubbed, of_an_evicted_page_are_not_in_the_slot_that_a_reserve_gets) {
  fill_up();
  for (const std::uint32_t wanted : {length, 2 * length}) { // The room of a page, and of a window.
    std::vector<evicted> victims;
    const auto slot = pool->reserve(wanted, victims);
    ASSERT_TRUE(slot);
    EXPECT_FALSE(victims.empty());
    EXPECT_TRUE(is_all_zero(slots.bytes(*slot, wanted)));
  }
}

/// The free space is scattered, and the only window that is free but for bytes to be zeroed has
/// more of them than a reserve zeroes before it looks for windows.
TEST_F(page_pool_bytes_scrubbed, that_wait_to_be_zeroed_keep_no_window_from_a_larger_page) {
  std::vector<slot_id> slots_of;
  for (std::uint64_t number = 1; number <= 4; ++number)
    slots_of.push_back(filled(*pool, slots, number, length).slot);
  for (const auto number : {0, 2, 3}) // The second slot is being filled all the time.
    ASSERT_TRUE(pool->abandon(slots_of[number]));
  std::vector<evicted> victims;
  const auto slot = pool->reserve(2 * length, victims);
  ASSERT_TRUE(slot);
  EXPECT_EQ(*slot, slots_of[2]);
  EXPECT_TRUE(is_all_zero(slots.bytes(*slot, 2 * length)));
  EXPECT_EQ(pool->stats().limbo, 0u);
  EXPECT_EQ(pool->zeroed_bytes(), 3 * length);
}

TEST_F(page_pool_bytes_scrubbed, that_a_reader_sends_keep_their_window) {
  fill_up();
  const auto page = *pool->find(key_of(4));
  ASSERT_EQ(slots.pin_if(page.slot, page.gen, page.key, length), page_status::hit);
  for (std::uint64_t number = 1; number <= 4; ++number)
    remove(number);
  std::vector<evicted> victims;
  EXPECT_TRUE(pool->reserve(2 * length, victims));
  EXPECT_FALSE(pool->reserve(2 * length, victims));
  EXPECT_FALSE(is_zero(page.slot, 0, length));
  slots.unpin(page.slot);
  EXPECT_TRUE(pool->reserve(2 * length, victims));
}

TEST_F(page_pool_bytes_scrubbed, of_a_replaced_page_are_zeroed) {
  const auto slot = put(*pool, slots, 1, length);
  put(*pool, slots, 1, length / 2);
  EXPECT_FALSE(is_zero(slot, 0, length));
  pool->scrub(UINT64_MAX);
  EXPECT_TRUE(is_zero(slot, 0, length));
}

TEST_F(page_pool_bytes_scrubbed, of_fills_that_become_no_page_are_zeroed) {
  put(*pool, slots, 1, length);
  const auto again = filled(*pool, slots, 1, length);
  EXPECT_EQ(commit(again).status, page_status::duplicate);
  const auto given_back = filled(*pool, slots, 2, length);
  EXPECT_TRUE(pool->abandon(given_back.slot));
  for (const auto slot : {again.slot, given_back.slot})
    EXPECT_FALSE(is_zero(slot, 0, length));
  pool->scrub(UINT64_MAX);
  for (const auto slot : {again.slot, given_back.slot})
    EXPECT_TRUE(is_zero(slot, 0, length));
  EXPECT_EQ(pool->stats().limbo, 0u);
  EXPECT_TRUE(holds(*pool, slots, 1, length));
}

} // namespace
} // namespace peercache::storage::page_pool_bytes_test
