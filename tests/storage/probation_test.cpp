#include "storage/probation.hpp"
#include "tests/storage/eviction_support.hpp"

#include <gtest/gtest.h>

#include <set>

namespace peercache::storage {
namespace {

/// The eviction order of a pool of 80 bytes with pages of one byte, of which ten may be on
/// probation.
class probation_test : public testing::Test {
protected:
  /// Slots from this number on are those of promoted pages.
  static constexpr std::uint32_t cold = 1000;

  void insert(std::uint32_t slot) { order.insert(slot_id{slot}, key_number(slot), 1); }
  void promote(std::uint32_t slot) {
    order.insert_promoted(slot_id{slot}, key_number(slot), 1);
    order.touch(slot_id{slot}); // Counts a use: the read for which the page was promoted.
  }
  void promote_many(std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i)
      promote(cold + i);
  }
  std::uint32_t victim() {
    const auto chosen =
        order.victim([this](slot_id slot, slot_id) { return !only_copies.contains(slot.value); });
    EXPECT_TRUE(chosen);
    return chosen ? chosen->slot.value : 0;
  }
  /// Inserts the page again and touches it, as the pool does with a victim that was read since the
  /// pool last counted uses.
  void bring_back(std::uint32_t slot) {
    insert(slot);
    order.touch(slot_id{slot});
  }

  std::set<std::uint32_t> only_copies; ///< Slots of pages that are kept nowhere else.
  probation order{make_eviction_policy(eviction_kind::lru, 80), 80};
};

TEST_F(probation_test, pages_that_nobody_has_read_go_before_promoted_ones) {
  insert(1);
  insert(2);
  promote_many(20);
  EXPECT_EQ(victim(), 1u);
  EXPECT_EQ(victim(), 2u);
  EXPECT_EQ(victim(), cold) << "the oldest of those on probation";
}

TEST_F(probation_test, pages_of_which_there_is_no_other_copy_stay_longer_than_promoted_ones) {
  insert(1);
  only_copies = {1};
  promote_many(20);
  EXPECT_EQ(victim(), cold);
  only_copies.clear();
  EXPECT_EQ(victim(), 1u);
}

TEST_F(probation_test, pages_that_were_read_stay_longer_than_promoted_ones) {
  insert(1);
  order.touch(slot_id{1});
  promote_many(20);
  for (std::uint32_t i = 0; i < 10; ++i)
    EXPECT_EQ(victim(), cold + i);
}

TEST_F(probation_test, of_pages_whose_reads_were_not_noted_yet_one_is_looked_at_for_each_victim) {
  for (std::uint32_t slot = 1; slot <= 8; ++slot)
    insert(slot);
  promote_many(20);
  for (std::uint32_t i = 0; i < 4; ++i) {
    const auto seemed_unread = victim();
    EXPECT_EQ(seemed_unread, 1 + i);
    bring_back(seemed_unread);
    EXPECT_EQ(victim(), cold + i);
  }
}

TEST_F(probation_test, an_eighth_of_the_pool_is_theirs_whatever_else_there_is) {
  insert(1);
  promote_many(10);
  for (std::uint32_t i = 2; i < 8; ++i) {
    insert(i);
    EXPECT_EQ(victim(), i - 1) << "no promoted page";
  }
}

TEST_F(probation_test, a_second_read_ends_it) {
  promote_many(20);
  order.touch(slot_id{cold});
  EXPECT_EQ(victim(), cold + 1);
}

} // namespace
} // namespace peercache::storage
