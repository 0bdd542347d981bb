#include "actors/pool/disk_catch_up.hpp"

#include <gtest/gtest.h>

namespace peercache::actors {
namespace {

using namespace std::chrono_literals;

class disk_catch_up_test : public testing::Test {
protected:
  disk_catch_up way;
  disk_catch_up::time_point now{1h};
};

TEST_F(disk_catch_up_test, goes_on_where_it_was_and_pauses_after_a_round) {
  EXPECT_TRUE(way.due(now, true, false));
  way.looked(now, 256, 3);
  EXPECT_EQ(way.at(), 256u);
  EXPECT_TRUE(way.due(now, false, false));
  way.looked(now, 0, 1);
  EXPECT_EQ(way.rounds(), 1u);
  EXPECT_EQ(way.last_round(), 4u);
  way.stored();
  EXPECT_FALSE(way.due(now + 999ms, true, false));
  EXPECT_TRUE(way.due(now + 1000ms, true, false));
}

TEST_F(disk_catch_up_test, who_waits_for_the_end_waits_for_no_pause_between_rounds) {
  way.looked(now, 0, 1);
  EXPECT_FALSE(way.due(now, false, false));
  EXPECT_TRUE(way.due(now, false, true));
}

TEST_F(disk_catch_up_test, a_disk_that_takes_nothing_is_asked_less_and_less) {
  int asked = 0;
  for (auto i = 0; i < 12'000; ++i, now += 50ms) // Ten minutes, in steps of 50 ms.
    if (way.due(now, /*idle=*/true, /*hurried=*/true)) {
      ++asked;
      way.looked(now, 0, 10);
    }
  EXPECT_GE(asked, 20);
  EXPECT_LE(asked, 27) << "after 1, 2, 4, 8, 16 and then every 30 s";
  way.stored();
  EXPECT_TRUE(way.due(now, true, true)) << "it works again";
  EXPECT_FALSE(way.failing(now));
}

TEST_F(disk_catch_up_test, what_is_on_its_way_is_no_failure) {
  way.looked(now, 256, 10);
  EXPECT_TRUE(way.due(now + 1h, /*idle=*/false, false));
  EXPECT_FALSE(way.failing(now + 1h));
}

} // namespace
} // namespace peercache::actors
