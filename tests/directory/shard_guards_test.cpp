#include "common/test_guards.hpp"
#include "directory/shard.hpp"

#include <array>
#include <gtest/gtest.h>

namespace peercache::directory::shard_guards_test {
namespace {

constexpr incarnation alice{1, 1};
constexpr incarnation bob{2, 2};

page_location location(incarnation holder, std::uint64_t gen) {
  return {.node = {holder.low}, .holder = holder, .gen = {gen}, .length_bytes = 4096};
}

TEST(shard, without_its_guard_a_late_withdraw_removes_a_newer_fact) {
  guard_switched_off scope(guard::withdraw);
  shard s;
  s.set_members(std::array{alice});
  s.publish(page_key{}, location(alice, 4), publish_mode::always);
  EXPECT_TRUE(s.withdraw(page_key{}, alice, {2}));
  EXPECT_EQ(s.locations(), 0u);
}

TEST(shard, without_its_guard_records_of_the_dead_are_told_to_readers) {
  guard_switched_off scope(guard::purge);
  shard s;
  s.set_members(std::array{alice, bob});
  s.publish(page_key{}, location(alice, 2), publish_mode::always);
  EXPECT_EQ(s.set_members(std::array{bob}), 0u);
  page_location told;
  EXPECT_EQ(s.lookup(page_key{}, {&told, 1}), 1u);
  EXPECT_EQ(told.holder, alice);
}

} // namespace
} // namespace peercache::directory::shard_guards_test
