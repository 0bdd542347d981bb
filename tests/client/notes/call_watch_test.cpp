#include "client/notes/call_watch.hpp"

#include <gtest/gtest.h>

#include <string>

namespace peercache::client::call_watch_test {
namespace {

using namespace std::chrono_literals;
using link::call_kind;

const call_watch::time_point start{1'000'000s};

page_key key_of(std::string_view space) {
  const std::string_view fields[] = {space};
  return key_space{fields}.key_of("key");
}

class call_watch_with : public testing::Test {
protected:
  call_watch watch;

  /// Notes the end of a call that took this long, as cache_client does.
  void end(std::chrono::microseconds took, call_watch::time_point now = start,
           const std::string& peer = "") {
    watch.count(call_kind::get, key_of("a"), 2);
    if (watch.is_slow(took))
      watch.keep({call_kind::get, key_of("a"), 2, 1, took, {link::call_wait::peer, peer, took / 2}},
                 now);
  }
  link::call_report said(call_watch::time_point now = start) {
    link::call_report report;
    watch.take(report, now);
    return report;
  }
};

} // namespace

TEST_F(call_watch_with, tells_the_slowest_calls_and_what_they_waited_for) {
  end(10us);
  end(250ms, start, "node-2");
  const auto slow = said(start + 3s).slow;
  ASSERT_EQ(slow.size(), 2u);
  EXPECT_EQ(slow[0].took_us, 250'000u);
  EXPECT_EQ(slow[0].waited_us, 125'000u);
  EXPECT_EQ(slow[0].waited_for, static_cast<std::uint8_t>(link::call_wait::peer));
  EXPECT_EQ(slow[0].peer, "node-2");
  EXPECT_EQ(slow[0].call, static_cast<std::uint8_t>(call_kind::get));
  EXPECT_EQ(slow[0].pages, 2u);
  EXPECT_EQ(slow[0].failed, 1u);
  EXPECT_EQ(slow[0].age_ms, 3000u);
  EXPECT_EQ(slow[1].took_us, 10u);
}

TEST_F(call_watch_with, keeps_no_more_calls_than_its_bound_and_drops_the_fastest) {
  for (int i = 1; i <= 100; ++i)
    end(std::chrono::microseconds(i));
  const auto slow = said().slow;
  ASSERT_EQ(slow.size(), call_watch::slow_max);
  EXPECT_EQ(slow.front().took_us, 100u);
  EXPECT_EQ(slow.back().took_us, 101 - call_watch::slow_max);
  EXPECT_FALSE(watch.is_slow(10us)) << "such a call takes no lock";
}

TEST_F(call_watch_with, forgets_slow_calls_so_that_those_of_now_are_seen) {
  for (std::size_t i = 0; i < call_watch::slow_max; ++i)
    end(1s);
  EXPECT_FALSE(watch.is_slow(1ms));
  EXPECT_TRUE(said(start + 6min).slow.empty());
  EXPECT_TRUE(watch.is_slow(1ms));
}

TEST_F(call_watch_with, adds_up_the_pages_of_each_space) {
  watch.count(call_kind::exists, key_of("a"), 3);
  watch.count(call_kind::set, key_of("b"), 5);
  watch.count(call_kind::exists, key_of("a"), 4);
  const auto uses = said().uses;
  ASSERT_EQ(uses.size(), 2u);
  EXPECT_EQ(uses[0].space, space_named("a").value);
  EXPECT_EQ(uses[0].pages, (std::vector<std::uint64_t>{7, 0, 0}));
  EXPECT_EQ(uses[1].space, space_named("b").value);
  EXPECT_EQ(uses[1].pages, (std::vector<std::uint64_t>{0, 0, 5}));
}

TEST_F(call_watch_with, counts_no_more_spaces_than_its_bound) {
  for (std::size_t i = 0; i < call_watch::spaces_max + 5; ++i)
    watch.count(call_kind::get, key_of(std::to_string(i)), 1);
  const auto uses = said().uses;
  ASSERT_EQ(uses.size(), call_watch::spaces_max);
  for (const auto& use : uses)
    EXPECT_EQ(use.pages.at(1), 1u) << "pages of further spaces are not counted as another's";
}

TEST_F(call_watch_with, says_whether_there_were_calls_since) {
  link::call_report report;
  EXPECT_FALSE(watch.take(report, start));
  end(1ms);
  EXPECT_TRUE(watch.take(report, start));
  link::call_report again;
  EXPECT_FALSE(watch.take(again, start));
  EXPECT_EQ(again.slow.size(), 1u) << "a report takes the place of the one before, so it is whole";
}

} // namespace peercache::client::call_watch_test
