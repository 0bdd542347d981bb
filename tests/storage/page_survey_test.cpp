#include "storage/page_survey.hpp"

#include "heap_pool.hpp"
#include "storage/page_pool.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace peercache::storage::page_survey_test {
namespace {

using namespace std::chrono_literals;

const page_survey::time_point start{1'000'000s};

page_key key_in_space(std::string_view space, std::uint64_t number) {
  const std::string_view fields[] = {space};
  return key_space{fields}.key_of(std::to_string(number));
}

TEST(heavy_hitters, find_the_pages_that_are_read_most_among_far_more_pages_than_counters) {
  heavy_hitters reads;
  std::uint64_t rare = 1000;
  for (int round = 0; round < 2000; ++round) {
    reads.add(key_of(1), 4096, 3);
    reads.add(key_of(2), 8192, 2);
    for (int i = 0; i < 5; ++i)
      reads.add(key_of(rare++), 4096, 1);
  }
  auto found = reads.counters();
  ASSERT_EQ(found.size(), heavy_hitters::counters_max);
  std::sort(found.begin(), found.end(), [](auto& a, auto& b) { return a.reads > b.reads; });
  EXPECT_EQ(found[0].key, key_of(1));
  EXPECT_EQ(found[1].key, key_of(2));
  EXPECT_EQ(found[1].bytes, 8192u);
  for (int i = 0; i < 2; ++i) {
    const std::uint64_t truly = i == 0 ? 6000 : 4000;
    EXPECT_GE(found[i].reads, truly) << "never too low";
    EXPECT_LE(found[i].reads - found[i].over, truly) << "nor too high by more than it says";
  }
}

TEST(heavy_hitters, are_exact_while_there_is_a_counter_for_each_page) {
  heavy_hitters reads;
  for (std::uint64_t i = 0; i < heavy_hitters::counters_max; ++i)
    reads.add(key_of(i), 1, i + 1);
  for (const auto& one : reads.counters())
    EXPECT_EQ(one.over, 0u);
  reads.add(key_of(1000), 1, 1);
  EXPECT_EQ(reads.counters().size(), heavy_hitters::counters_max);
  const auto fresh = std::find_if(reads.counters().begin(), reads.counters().end(),
                                  [](auto& one) { return one.key == key_of(1000); });
  ASSERT_NE(fresh, reads.counters().end());
  EXPECT_EQ(fresh->reads, 2u);
  EXPECT_EQ(fresh->over, 1u);
}

TEST(page_survey, adds_up_the_spaces_of_the_last_whole_walk) {
  page_survey survey;
  survey.tell_time(start);
  survey.begin_walk();
  survey.saw(key_in_space("a", 1), 100, 0);
  survey.saw(key_in_space("a", 2), 200, 0);
  survey.saw(key_in_space("b", 1), 1000, 0);
  EXPECT_TRUE(survey.spaces().empty()) << "the walk has not ended";
  survey.begin_walk();
  survey.saw(key_in_space("c", 1), 1, 0);
  survey.tell_time(start + 2s);
  EXPECT_EQ(survey.age(), 2s);
  const auto spaces = survey.spaces();
  ASSERT_EQ(spaces.size(), 2u);
  EXPECT_EQ(spaces[0].space, space_named("b"));
  EXPECT_EQ(spaces[0].bytes, 1000u);
  EXPECT_EQ(spaces[1].space, space_named("a"));
  EXPECT_EQ(spaces[1].pages, 2u);
  EXPECT_EQ(spaces[1].bytes, 300u);
}

TEST(page_survey, sums_up_the_spaces_beyond_its_bound) {
  page_survey survey;
  survey.begin_walk();
  for (std::uint64_t i = 0; i < page_survey::spaces_max + 7; ++i)
    survey.saw(key_in_space(std::to_string(i), 1), 10, 0);
  survey.begin_walk();
  const auto spaces = survey.spaces();
  EXPECT_EQ(spaces.size(), page_survey::spaces_max + 1);
  EXPECT_EQ(spaces[0].space, space_id{}) << "those beyond, in one row";
  EXPECT_EQ(spaces[0].pages, 7u);
}

TEST(page_survey, keeps_the_largest_pages) {
  page_survey survey;
  survey.begin_walk();
  for (std::uint64_t i = 1; i <= 1000; ++i)
    survey.saw(key_of(i), (i * 389) % 1009, 0);
  survey.begin_walk();
  const auto pages = survey.largest();
  ASSERT_EQ(pages.size(), page_survey::pages_max);
  std::vector<std::uint64_t> all;
  for (std::uint64_t i = 1; i <= 1000; ++i)
    all.push_back((i * 389) % 1009);
  std::sort(all.begin(), all.end(), std::greater<>());
  for (std::size_t i = 0; i < pages.size(); ++i)
    EXPECT_EQ(pages[i].bytes, all[i]) << i;
}

TEST(page_survey, counts_reads_over_two_windows_and_forgets_older_ones) {
  page_survey survey;
  survey.tell_time(start);
  survey.saw(key_of(1), 10, 4);
  survey.tell_time(start + page_survey::window);
  survey.saw(key_of(1), 10, 3);
  survey.saw(key_of(2), 10, 5);
  ASSERT_EQ(survey.hottest().size(), 2u);
  EXPECT_EQ(survey.hottest()[0].key, key_of(1));
  EXPECT_EQ(survey.hottest()[0].reads, 7u);
  EXPECT_EQ(survey.counted_for(), page_survey::window);
  survey.tell_time(start + 2 * page_survey::window);
  ASSERT_EQ(survey.hottest().size(), 2u);
  EXPECT_EQ(survey.hottest()[0].key, key_of(2));
  EXPECT_EQ(survey.hottest()[1].reads, 3u);
}

TEST(page_survey, is_told_the_pages_and_reads_of_a_pool) {
  constexpr std::uint32_t granule = limits::granule_bytes;
  heap_pool memory{64, false};
  page_pool pool{memory.slots(), make_eviction_policy(eviction_kind::lru, 64ull * granule), {}};
  std::vector<evicted> victims;
  std::vector<slot_id> slots;
  for (std::uint64_t i = 0; i < 3; ++i) {
    const auto slot = pool.reserve(granule, victims);
    ASSERT_TRUE(slot);
    const fill page{*slot, key_of(i), granule, 1};
    memory.slots().fill(page.slot, page.key, page.length_bytes, page.checksum);
    commit_outcome outcome;
    pool.commit({&page, 1}, {&outcome, 1}, fill_origin::producer);
    slots.push_back(outcome.slot);
  }
  memory.slots().count_use(slots[1]);
  memory.slots().count_use(slots[1]);
  page_survey survey;
  survey.tell_time(start);
  pool.fold_uses(100, &survey);
  pool.fold_uses(100, &survey);
  ASSERT_EQ(survey.hottest().size(), 1u);
  EXPECT_EQ(survey.hottest()[0].key, key_of(1));
  EXPECT_EQ(survey.hottest()[0].reads, 2u);
  EXPECT_EQ(survey.largest().size(), 3u);
  EXPECT_EQ(pool.stats().uses, 2u) << "the eviction order still hears of them";
}

} // namespace
} // namespace peercache::storage::page_survey_test
