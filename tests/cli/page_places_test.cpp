#include "cli/page_places.hpp"

#include "common/limits.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <string>

namespace peercache::cli::page_places_test {
namespace {

std::vector<page_key> some_keys(std::size_t count) {
  std::vector<page_key> keys;
  for (std::size_t i = 0; i < count; ++i)
    keys.push_back(key_space{}.key_of(std::to_string(i)));
  return keys;
}

} // namespace

TEST(page_places, are_unknown_only_for_the_keys_whose_owners_do_not_answer) {
  const auto keys = some_keys(3);
  std::map<std::uint64_t, page_fate> fates;
  const auto find = [](std::span<const page_key>) {
    return std::vector{page_status::hit, page_status::timed_out, page_status::not_found};
  };
  EXPECT_EQ(find_places(keys, find, fates), 1u);
  EXPECT_TRUE(fates[keys[0].prefix()].is_there);
  EXPECT_FALSE(fates[keys[0].prefix()].is_unknown);
  EXPECT_TRUE(fates[keys[1].prefix()].is_unknown);
  EXPECT_FALSE(fates[keys[1].prefix()].is_there);
  EXPECT_FALSE(fates.contains(keys[2].prefix()));
}

TEST(page_places, are_asked_for_in_pieces_of_which_one_may_fail) {
  const auto piece_max = std::size_t{limits::batch_pages_max};
  const auto keys = some_keys(2 * piece_max + 5);
  std::map<std::uint64_t, page_fate> fates;
  std::atomic<std::size_t> asked{0};
  const auto find = [&](std::span<const page_key> piece) {
    asked += piece.size();
    EXPECT_LE(piece.size(), piece_max);
    const auto is_first = piece.front() == keys.front();
    return is_first ? std::vector<page_status>{} : std::vector(piece.size(), page_status::hit);
  };
  EXPECT_EQ(find_places(keys, find, fates), piece_max);
  EXPECT_EQ(asked, keys.size());
  EXPECT_TRUE(fates[keys.front().prefix()].is_unknown);
  EXPECT_TRUE(fates[keys.back().prefix()].is_there);
}

} // namespace peercache::cli::page_places_test
