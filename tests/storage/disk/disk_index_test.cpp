#include "storage/disk/disk_index.hpp"

#include <gtest/gtest.h>
#include <set>

namespace peercache::storage::disk_index_test {
namespace {

page_key key_of(std::uint32_t number) {
  page_key key;
  std::memcpy(key.bytes.data(), &number, sizeof number);
  return key;
}

disk_index::entry page(std::uint32_t number) {
  disk_index::entry made;
  made.page.key = key_of(number);
  made.page.length_bytes = 4096;
  return made;
}

/// Walks over the index in steps of three pages, and calls `between` after each step. Returns the
/// keys that the walk has met.
std::multiset<page_key> walk(disk_index& index, const std::function<void()>& between) {
  std::multiset<page_key> met;
  std::uint64_t at = 0;
  do {
    at = index.walk(at, 3, [&](const disk_page& each) { met.insert(each.key); });
    between();
  } while (at != 0);
  return met;
}

TEST(disk_index, a_walk_meets_every_page_though_others_are_read_between_its_steps) {
  disk_index index;
  for (std::uint32_t i = 0; i < 20; ++i)
    index.insert(page(i));
  std::uint32_t next = 0;
  const auto met = walk(index, [&] {
    for (int i = 0; i < 5; ++i)
      index.touch(key_of(next++ % 20));
  });
  EXPECT_EQ(met.size(), 20u);
  for (std::uint32_t i = 0; i < 20; ++i)
    EXPECT_EQ(met.count(key_of(i)), 1u) << i;
}

TEST(disk_index, a_walk_goes_on_where_its_last_page_was_replaced_or_removed) {
  disk_index index;
  for (std::uint32_t i = 0; i < 20; ++i)
    index.insert(page(i));
  std::uint32_t step = 0;
  const auto met = walk(index, [&] {
    const auto last = ++step * 3 - 1; // The number of the page that the step ended with.
    if (last == 2)
      index.insert(page(last));
    else if (last < 20)
      index.erase(key_of(last));
  });
  for (std::uint32_t i = 0; i < 20; ++i)
    EXPECT_GE(met.count(key_of(i)), 1u) << i;
  EXPECT_EQ(met.count(key_of(2)), 2u) << "a page that was written again is a new one";
}

TEST(disk_index, a_walk_is_not_lost_when_most_pages_go) {
  disk_index index;
  for (std::uint32_t i = 0; i < 1000; ++i)
    index.insert(page(i));
  std::uint64_t at = index.walk(0, 500, [](const disk_page&) {});
  for (std::uint32_t i = 0; i < 1000; ++i)
    if (i % 10 != 0)
      index.erase(key_of(i));
  std::vector<page_key> rest;
  index.walk(at, 1000, [&](const disk_page& each) { rest.push_back(each.key); });
  ASSERT_EQ(rest.size(), 50u);
  EXPECT_EQ(rest.front(), key_of(500));
  EXPECT_EQ(rest.back(), key_of(990));
}

} // namespace
} // namespace peercache::storage::disk_index_test
