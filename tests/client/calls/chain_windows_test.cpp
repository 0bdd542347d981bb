#include "client/calls/chain_windows.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace peercache::client::chain_windows_test {
namespace {

using sizes = std::vector<std::size_t>;

sizes windows_of(std::size_t members, std::size_t keys) {
  chain_windows windows{members};
  sizes all;
  for (std::size_t done = 0; done < keys; done += all.back())
    all.push_back(windows.next(keys - done));
  return all;
}

TEST(chain_windows, few_members_are_asked_about_all_keys_at_once) {
  for (const std::size_t members : {0, 1, 2, 8, 63})
    EXPECT_EQ(windows_of(members, 128), sizes{128}) << members;
}

TEST(chain_windows, many_members_are_asked_about_a_few_keys_first) {
  EXPECT_EQ(windows_of(64, 128), (sizes{16, 112}));
  EXPECT_EQ(windows_of(1000, 1000), (sizes{16, 64, 920}));
  EXPECT_EQ(windows_of(1024, 1000), (sizes{16, 64, 256, 664}));
  EXPECT_EQ(windows_of(100'000, 1000), (sizes{16, 64, 256, 664}));
}

TEST(chain_windows, a_short_rest_is_asked_about_with_the_window_before) {
  EXPECT_EQ(windows_of(1000, 31), sizes{31});
  EXPECT_EQ(windows_of(1000, 32), (sizes{16, 16}));
  EXPECT_EQ(windows_of(1000, 16 + 127), (sizes{16, 127}));
  EXPECT_EQ(windows_of(1000, 1), sizes{1});
}

TEST(chain_windows, have_no_more_keys_than_a_batch) {
  constexpr std::size_t most = limits::batch_pages_max;
  EXPECT_EQ(windows_of(2, 2 * most + 5), (sizes{most, most, 5}));
  for (const std::size_t members : {2, 100, 1000, 1'000'000}) {
    const auto all = windows_of(members, 100'000);
    EXPECT_EQ(std::accumulate(all.begin(), all.end(), std::size_t{0}), 100'000u);
    for (const auto each : all)
      EXPECT_TRUE(each > 0 && each <= most) << each;
  }
}

/// A chain whose first `found` pages are there, asked about by a clock that only questions move.
struct chain {
  explicit chain(std::size_t pages, std::size_t there) : results(pages), found(there) {}

  std::size_t ask(std::size_t members, std::chrono::milliseconds patience = {}) {
    return ask_chain(
        std::span(results), begin + (patience.count() > 0 ? patience : std::chrono::hours(1)),
        members,
        [&](std::size_t first, std::size_t count) {
          asked.push_back(count);
          for (std::size_t i = first; i < first + count; ++i)
            results[i].status = i == found ? page_status::not_found : page_status::hit;
          now += std::chrono::milliseconds(10);
        },
        [&] { return now; });
  }

  const deadline begin{std::chrono::hours(1)};
  deadline now = begin;
  std::vector<page_result> results;
  std::size_t found;
  sizes asked;
};

TEST(a_chain, without_its_head_is_asked_about_once) {
  chain of{128, 0};
  EXPECT_EQ(of.ask(1000), 16u);
  EXPECT_EQ(of.asked, sizes{16});
  EXPECT_EQ(leading_hits(of.results), 0u);
  for (std::size_t i = 16; i < 128; ++i)
    EXPECT_EQ(of.results[i].status, page_status::pending) << i;
}

TEST(a_chain, ends_in_the_window_of_its_first_gap) {
  for (const std::size_t members : {2, 64, 100, 1000, 5000})
    for (const std::size_t pages : {1, 15, 16, 17, 128, 1000})
      for (std::size_t gap = 0; gap <= pages; ++gap) {
        chain of{pages, gap};
        const auto asked = of.ask(members);
        ASSERT_EQ(leading_hits(of.results), gap);
        ASSERT_EQ(asked, std::accumulate(of.asked.begin(), of.asked.end(), std::size_t{0}));
        ASSERT_GE(asked, std::min(gap + 1, pages));
        if (gap < pages) {
          ASSERT_LT(asked - of.asked.back(), gap + 1) << "no window after that of the gap";
        }
        for (std::size_t i = 0; i < pages; ++i)
          ASSERT_EQ(of.results[i].status == page_status::pending, i >= asked);
      }
}

TEST(a_chain, in_a_small_cluster_is_asked_about_once) {
  chain of{128, 5};
  EXPECT_EQ(of.ask(8), 128u);
  EXPECT_EQ(of.results[127].status, page_status::hit) << "what was asked about is told";
}

TEST(a_chain, that_runs_out_of_time_ends_with_a_page_that_is_timed_out) {
  chain of{1000, 1000};
  EXPECT_EQ(of.ask(5000, std::chrono::milliseconds(15)), 16u + 64u + 1u);
  EXPECT_EQ(of.asked, (sizes{16, 64}));
  EXPECT_EQ(leading_hits(of.results), 80u);
  EXPECT_EQ(of.results[80].status, page_status::timed_out);
  EXPECT_EQ(of.results[81].status, page_status::pending);
}

TEST(a_chain, of_no_page_asks_nobody) {
  chain of{0, 0};
  EXPECT_EQ(of.ask(1000), 0u);
  EXPECT_TRUE(of.asked.empty());
}

} // namespace
} // namespace peercache::client::chain_windows_test
