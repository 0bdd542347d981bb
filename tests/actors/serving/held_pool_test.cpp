// Tests of how clients of other hosts hold pages in a node's pool without a message to the node's
// actors.

#include "actors/serving/held_pool.hpp"
#include "link/protocol/pool_wire.hpp"
#include "tests/storage/heap_pool.hpp"

#include <gtest/gtest.h>

namespace peercache::actors {
namespace {

using namespace std::chrono_literals;
using link::used_page;
using storage::hold_outcome;

class held_pool_test : public testing::Test {
protected:
  held_pool_test() { memory.holds().limit(8); }

  used_page put(std::uint32_t slot, std::uint32_t granules = 1) {
    auto slots = memory.slots();
    const auto key = storage::key_of(slot);
    slots.begin_fill({slot}, granules);
    slots.fill({slot}, key, granules * limits::granule_bytes, 0);
    return {.gen = slots.publish({slot}, key, granules * limits::granule_bytes, 0), .slot = {slot}};
  }
  std::string take(const std::vector<used_page>& pages, std::uint32_t who = 5,
                   std::uint32_t for_ms = 2000) {
    std::string packed;
    for (const auto& page : pages)
      link::append_record(packed, page);
    return pool.take({who, for_ms, packed}, now);
  }
  static std::string outcomes(std::initializer_list<hold_outcome> each) {
    std::string packed;
    for (const auto outcome : each)
      packed.push_back(static_cast<char>(outcome));
    return packed;
  }
  bool is_held(const used_page& page) { return memory.holds().is_held(page.slot, now); }

  storage::heap_pool memory{64, false};
  held_pool pool{memory.slots(), memory.holds()};
  storage::hold_table::time_point now{std::chrono::hours(100)};
};

TEST_F(held_pool_test, each_page_of_a_question_is_answered) {
  const auto first = put(0, 4), second = put(4, 4), third = put(8);
  auto before = third;
  before.gen.value += 2;
  EXPECT_EQ(take({first,
                  before,
                  {.gen = {2}, .slot = {0xffffffff}},
                  {.gen = {2}, .slot = {60}},
                  second,
                  third}),
            outcomes({hold_outcome::held, hold_outcome::gone, hold_outcome::gone,
                      hold_outcome::gone, hold_outcome::held, hold_outcome::refused}));
  EXPECT_TRUE(is_held(first) && is_held(second));
  EXPECT_FALSE(is_held(third)) << "8 granules may be held, and another page was meant";
  EXPECT_EQ(memory.holds().held(now).granules, 8u);
  now += 2100ms;
  EXPECT_FALSE(is_held(first));
}

TEST_F(held_pool_test, a_client_ends_its_own_holds_of_the_same_page_alone) {
  const auto mine = put(0), others = put(1);
  auto before = mine;
  before.gen.value -= 1;
  ASSERT_EQ(take({mine}), outcomes({hold_outcome::held}));
  ASSERT_EQ(take({others}, 6), outcomes({hold_outcome::held}));
  take({before, others}, 5, 0);
  EXPECT_TRUE(is_held(mine)) << "it was another page that was read";
  EXPECT_TRUE(is_held(others));
  take({mine}, 5, 0);
  EXPECT_FALSE(is_held(mine));
  EXPECT_EQ(memory.holds().held(now).pages, 1u);
}

TEST_F(held_pool_test, half_a_record_holds_nothing) {
  EXPECT_TRUE(pool.take({5, 2000, "no record"}, now).empty());
}

} // namespace
} // namespace peercache::actors
