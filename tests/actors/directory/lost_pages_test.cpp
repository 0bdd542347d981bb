#include "actors/directory/lost_pages.hpp"

#include "common/page_status.hpp"
#include "link/protocol/pool_wire.hpp"

#include <gtest/gtest.h>

#include <string>

namespace peercache::actors::lost_pages_test {
namespace {

using namespace std::chrono_literals;

const lost_pages::time_point start{1'000'000s};

page_key key_of(int number) {
  return key_space{}.key_of(std::to_string(number));
}

std::string prefixes(std::initializer_list<int> numbers) {
  std::string packed;
  for (const auto number : numbers)
    append_record(packed, key_of(number).prefix());
  return packed;
}

std::string keys(std::initializer_list<int> numbers) {
  std::string packed;
  for (const auto number : numbers)
    append_record(packed, key_of(number));
  return packed;
}

} // namespace

TEST(lost_pages, tell_how_a_page_left_and_how_long_ago) {
  lost_pages lost;
  lost.note(key_of(1), page_loss::evicted, start);
  lost.note(keys({2, 3}), page_loss::cleared, start + 1s);
  const auto found = lost.find(prefixes({1, 3, 4}), start + 3s);
  ASSERT_EQ(found.pages.size(), 2u);
  EXPECT_EQ(found.pages[0].prefix, key_of(3).prefix());
  EXPECT_EQ(found.pages[0].how, static_cast<std::uint8_t>(page_loss::cleared));
  EXPECT_EQ(found.pages[0].age_ms, 2000u);
  EXPECT_EQ(found.pages[1].how, static_cast<std::uint8_t>(page_loss::evicted));
  EXPECT_EQ(found.pages[1].age_ms, 3000u);
}

TEST(lost_pages, know_their_age_in_a_node_that_has_run_for_long) {
  lost_pages lost;
  lost.note(key_of(1), page_loss::evicted, start);
  lost.note(key_of(2), page_loss::evicted, start + 50 * 24h);
  for (const auto& [number, at] : {std::pair{1, start}, std::pair{2, start + 50 * 24h}}) {
    const auto now = start + 60 * 24h;
    const auto found = lost.find(prefixes({number}), now);
    ASSERT_EQ(found.pages.size(), 1u);
    EXPECT_EQ(std::chrono::milliseconds(found.pages[0].age_ms), now - at);
  }
}

TEST(lost_pages, count_only_removals_of_pages_that_were_there) {
  lost_pages lost;
  const std::string statuses{static_cast<char>(page_status::hit),
                             static_cast<char>(page_status::not_found)};
  lost.note_removed(keys({1, 2}), statuses, start);
  const auto found = lost.find(prefixes({1, 2}), start);
  ASSERT_EQ(found.pages.size(), 1u);
  EXPECT_EQ(found.pages[0].prefix, key_of(1).prefix());
}

TEST(lost_pages, forget_the_oldest) {
  lost_pages lost(4);
  for (int i = 0; i < 6; ++i)
    lost.note(key_of(i), page_loss::evicted, start + i * 1s);
  lost.note(key_of(5), page_loss::removed, start + 6s);
  EXPECT_TRUE(lost.find(prefixes({0, 1, 2}), start).pages.empty());
  const auto found = lost.find(prefixes({3, 4, 5}), start + 6s);
  ASSERT_EQ(found.pages.size(), 4u);
  EXPECT_EQ(found.pages[0].how, static_cast<std::uint8_t>(page_loss::removed));
  EXPECT_EQ(found.pages[0].age_ms, 0u);
}

TEST(lost_pages, tell_the_newest_losses_of_a_page_that_left_more_than_once) {
  lost_pages lost;
  for (int i = 0; i < 6; ++i)
    lost.note(key_of(1), page_loss::evicted, start + i * 1s);
  lost.note(key_of(2), page_loss::removed, start + 6s);
  const auto found = lost.find(prefixes({1, 2, 1}), start + 6s);
  ASSERT_EQ(found.pages.size(), lost_pages::losses_of_page_max + 1);
  EXPECT_EQ(found.pages[0].prefix, key_of(2).prefix());
  for (std::size_t i = 1; i < found.pages.size(); ++i) {
    EXPECT_EQ(found.pages[i].prefix, key_of(1).prefix());
    EXPECT_EQ(found.pages[i].age_ms, 1000 * i);
  }
}

} // namespace peercache::actors::lost_pages_test
