#include "common/test_guards.hpp"

#include <array>
#include <cstdlib>
#include <gtest/gtest.h>

namespace peercache {
namespace {

constexpr std::array all = {guard::generation, guard::incarnation,  guard::checksum, guard::key,
                            guard::pin,        guard::session_lock, guard::fence,    guard::view,
                            guard::purge,      guard::withdraw,     guard::majority, guard::filled,
                            guard::epoch,      guard::adoption,     guard::fragment, guard::quiet,
                            guard::all_pieces, guard::reread};

TEST(guards, are_switched_one_by_one) {
  for (auto off : all) {
    guard_switched_off scope(off);
    for (auto which : all)
      EXPECT_EQ(guard_on(which), which != off);
  }
  for (auto which : all)
    EXPECT_TRUE(guard_on(which));
}

TEST(guards, can_be_switched_by_a_call) {
  set_guard(guard::pin, false);
  EXPECT_FALSE(guard_on(guard::pin));
  set_guard(guard::pin, true);
  EXPECT_TRUE(guard_on(guard::pin));
}

TEST(guards, stay_off_when_an_inner_scope_ends) {
  guard_switched_off outer(guard::key);
  { guard_switched_off inner(guard::key); }
  EXPECT_FALSE(guard_on(guard::key));
}

/// Exits with a status that has a bit for each guard that is off. Called in death tests, each of
/// which has a process of its own that reads the environment anew.
[[noreturn]] void exit_with_guards_off(const char* environment) {
  setenv("PEERCACHE_TEST_GUARDS_OFF", environment, 1);
  int bits = 0;
  for (std::size_t i = 0; i < all.size(); ++i)
    bits |= guard_on(all[i]) ? 0 : 1 << i;
  std::_Exit(bits);
}

class guards_death : public testing::Test {
protected:
  guards_death() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(guards_death, are_switched_by_names_in_the_environment) {
  EXPECT_EXIT(exit_with_guards_off(""), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(exit_with_guards_off("checksum"), testing::ExitedWithCode(1 << 2), "");
  EXPECT_EXIT(exit_with_guards_off("generation,pin"), testing::ExitedWithCode(1 | 1 << 4), "");
  EXPECT_EXIT(exit_with_guards_off("incarnation,key,session_lock"),
              testing::ExitedWithCode(1 << 1 | 1 << 3 | 1 << 5), "");
}

TEST_F(guards_death, do_not_accept_a_misspelt_name) {
  EXPECT_DEATH(exit_with_guards_off("generation,cheksum"), "there is no guard \"cheksum\"");
}

} // namespace
} // namespace peercache
