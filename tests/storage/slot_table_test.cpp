#include "storage/slot_table.hpp"

#include "common/test_guards.hpp"
#include "heap_pool.hpp"

#include <gtest/gtest.h>

namespace peercache::storage::slot_table_test {
namespace {

constexpr slot_id slot{3};
constexpr std::uint32_t length = 5000;

class slot_table_with_a_page : public testing::Test {
protected:
  slot_table_with_a_page() {
    slots.begin_fill(slot);
    gen = slots.publish(slot, key, length, 77);
  }
  generation refill(const page_key& other) {
    slots.give_up(slot);
    slots.begin_fill(slot);
    return slots.publish(slot, other, length, 78);
  }

  heap_pool memory{16};
  slot_table slots = memory.slots();
  page_key key = key_of(1);
  generation gen;
};

TEST_F(slot_table_with_a_page, a_published_page_can_be_pinned_and_unpinned) {
  EXPECT_EQ(slots.pin_if(slot, gen, key, length), page_status::hit);
  EXPECT_EQ(slots.pins(slot), 1u);
  slots.unpin(slot);
  EXPECT_EQ(slots.pins(slot), 0u);
}

TEST_F(slot_table_with_a_page, contents_are_what_was_published) {
  auto page = slots.contents(slot);
  EXPECT_EQ(page.key, key);
  EXPECT_EQ(page.gen, gen);
  EXPECT_EQ(page.length_bytes, length);
  EXPECT_EQ(page.checksum, 77u);
}

TEST_F(slot_table_with_a_page, a_given_up_page_is_stale_for_every_reader) {
  slots.give_up(slot);
  EXPECT_EQ(slots.check(slot, gen, key, length), page_status::stale);
  EXPECT_EQ(slots.pin_if(slot, gen, key, length), page_status::stale);
  EXPECT_EQ(slots.pins(slot), 0u);
  EXPECT_FALSE(slots.still_readable(slot, gen));
}

TEST_F(slot_table_with_a_page, an_odd_generation_is_never_a_hit) {
  slots.give_up(slot);
  auto filling = slots.begin_fill(slot);
  EXPECT_FALSE(filling.readable());
  EXPECT_EQ(slots.pin_if(slot, filling, key, length), page_status::stale);
  EXPECT_EQ(slots.check(slot, {0}, key, length), page_status::stale);
}

TEST_F(slot_table_with_a_page, each_filling_has_a_generation_of_its_own) {
  slots.give_up(slot);
  auto first = slots.begin_fill(slot);
  auto second = slots.begin_fill(slot);
  EXPECT_LT(gen, first);
  EXPECT_LT(first, second);
  EXPECT_LT(second, slots.publish(slot, key, length, 0));
}

TEST_F(slot_table_with_a_page, the_same_key_in_a_newer_filling_is_stale) {
  auto newer = refill(key);
  EXPECT_EQ(slots.check(slot, gen, key, length), page_status::stale);
  EXPECT_EQ(slots.check(slot, newer, key, length), page_status::hit);
}

TEST_F(slot_table_with_a_page, a_record_of_another_page_is_a_wrong_key) {
  EXPECT_EQ(slots.pin_if(slot, gen, key_of(2), length), page_status::wrong_key);
  EXPECT_EQ(slots.check(slot, gen, key_of(2), length), page_status::wrong_key);
  EXPECT_EQ(slots.pin_if(slot, gen, key, length - 1), page_status::bad_size);
  EXPECT_EQ(slots.pins(slot), 0u);
}

TEST_F(slot_table_with_a_page, a_record_from_outside_the_pool_is_stale) {
  EXPECT_EQ(slots.pin_if({16}, gen, key, length), page_status::stale);
  EXPECT_EQ(slots.pin_if({UINT32_MAX}, gen, key, length), page_status::stale);
  EXPECT_EQ(slots.check({15}, gen, key, length), page_status::stale);
  EXPECT_EQ(slots.check({0}, gen, key, UINT32_MAX), page_status::stale);
}

TEST_F(slot_table_with_a_page, uses_are_counted_until_taken) {
  slots.count_use(slot);
  slots.count_use(slot);
  EXPECT_EQ(slots.take_uses(slot), 2u);
  EXPECT_EQ(slots.take_uses(slot), 0u);
}

TEST_F(slot_table_with_a_page, without_the_generation_guard_a_newer_page_passes_for_the_old_one) {
  refill(key);
  guard_switched_off off(guard::generation);
  EXPECT_EQ(slots.check(slot, gen, key, length), page_status::hit);
  EXPECT_TRUE(slots.still_readable(slot, gen));
  EXPECT_EQ(slots.pin_if(slot, gen, key, length), page_status::hit);
}

TEST_F(slot_table_with_a_page, without_the_key_guard_another_page_passes) {
  guard_switched_off off(guard::key);
  EXPECT_EQ(slots.check(slot, gen, key_of(2), length), page_status::hit);
}

TEST_F(slot_table_with_a_page, without_the_pin_guard_a_pinned_slot_looks_unused) {
  ASSERT_EQ(slots.pin_if(slot, gen, key, length), page_status::hit);
  guard_switched_off off(guard::pin);
  EXPECT_EQ(slots.pins(slot), 0u);
}

TEST_F(slot_table_with_a_page, what_clients_write_of_its_slot_does_not_change_a_published_page) {
  auto& said = memory.clients()[slot.value];
  said.key = key_of(2);
  said.length_bytes = 1;
  said.checksum = 0;
  said.filled = 1;
  EXPECT_EQ(slots.check(slot, gen, key, length), page_status::hit);
  EXPECT_EQ(slots.page_in(slot)->checksum, 77u);
  EXPECT_EQ(slots.pin_if(slot, gen, key, length), page_status::hit);
}

TEST_F(slot_table_with_a_page, reads_of_an_unpublished_page_count_and_those_of_the_former_do_not) {
  slots.count_use(slot);
  slots.give_up(slot);
  slots.begin_fill(slot);
  slots.count_use(slot);
  slots.publish(slot, key, length, 77);
  EXPECT_EQ(slots.take_uses(slot), 1u);
}

TEST_F(slot_table_with_a_page, a_filling_is_read_once_its_filler_says_that_it_is_complete) {
  slots.give_up(slot);
  const auto filling = slots.begin_fill(slot);
  EXPECT_FALSE(slots.page_in(slot));
  ASSERT_EQ(slots.fill(slot, key_of(2), length, 78), filling);
  EXPECT_EQ(slots.check(slot, filling, key_of(2), length), page_status::hit);
  EXPECT_TRUE(slots.still_readable(slot, filling));
  const auto page = slots.page_in(slot);
  ASSERT_TRUE(page);
  EXPECT_EQ(page->key, key_of(2));
  EXPECT_EQ(page->gen, filling);
  EXPECT_EQ(page->checksum, 78u);
  // A page server pins for readers of other hosts, which know published pages only, so it must not
  // pin this page.
  EXPECT_EQ(slots.pin_if(slot, filling, key_of(2), length), page_status::stale);
}

TEST_F(slot_table_with_a_page, a_filling_that_is_published_while_it_is_read_is_the_same_page) {
  slots.give_up(slot);
  const auto filling = slots.begin_fill(slot);
  slots.fill(slot, key_of(2), length, 78);
  const auto published = slots.publish(slot, key_of(2), length, 78, {100});
  EXPECT_TRUE(slots.still_readable(slot, filling));
  EXPECT_EQ(slots.check(slot, filling, key_of(2), length), page_status::hit);
  EXPECT_EQ(slots.check(slot, filling, key_of(3), length), page_status::wrong_key);
  EXPECT_EQ(slots.page_in(slot)->gen, published);
  slots.give_up(slot);
  EXPECT_EQ(slots.check(slot, filling, key_of(2), length), page_status::stale);
  EXPECT_FALSE(slots.still_readable(slot, filling)) << "its bytes may be overwritten from here on";
  slots.begin_fill(slot);
  slots.publish(slot, key_of(3), length, 79);
  EXPECT_FALSE(slots.still_readable(slot, filling)) << "another page";
  EXPECT_EQ(slots.check(slot, filling, key_of(3), length), page_status::stale);
}

TEST_F(slot_table_with_a_page, a_filling_that_is_dropped_is_read_no_more) {
  slots.give_up(slot);
  const auto filling = slots.begin_fill(slot);
  slots.fill(slot, key_of(2), length, 78);
  slots.drop(slot);
  EXPECT_FALSE(slots.page_in(slot));
  EXPECT_FALSE(slots.still_readable(slot, filling));
  EXPECT_EQ(slots.check(slot, filling, key_of(2), length), page_status::stale);
  EXPECT_FALSE(slots.was_filled(slot, key_of(2), length, 78));
  EXPECT_GT(slots.begin_fill(slot), filling);
}

TEST_F(slot_table_with_a_page, without_the_guard_a_dropped_filling_goes_on_being_read) {
  guard_switched_off scope(guard::filled);
  slots.give_up(slot);
  const auto filling = slots.begin_fill(slot);
  slots.fill(slot, key_of(2), length, 78);
  slots.drop(slot);
  EXPECT_EQ(slots.check(slot, filling, key_of(2), length), page_status::hit);
  EXPECT_TRUE(slots.still_readable(slot, filling));
}

TEST_F(slot_table_with_a_page, a_filling_is_what_its_filler_says_and_nothing_else) {
  slots.give_up(slot);
  slots.begin_fill(slot);
  EXPECT_FALSE(slots.was_filled(slot, key, length, 77)) << "what was there before";
  slots.fill(slot, key_of(2), length, 78);
  EXPECT_TRUE(slots.was_filled(slot, key_of(2), length, 78));
  EXPECT_FALSE(slots.was_filled(slot, key_of(3), length, 78));
  EXPECT_FALSE(slots.was_filled(slot, key_of(2), length + 1, 78));
  EXPECT_FALSE(slots.was_filled(slot, key_of(2), length, 79));
}

TEST_F(slot_table_with_a_page, a_published_page_cannot_be_filled) {
  EXPECT_FALSE(slots.fill(slot, key_of(2), length, 78));
  EXPECT_EQ(slots.contents(slot).key, key);
}

} // namespace
} // namespace peercache::storage::slot_table_test
