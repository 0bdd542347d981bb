#include "client/calls/call_pieces.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace peercache::client {
namespace {

using std::chrono::milliseconds;

/// Work on a million pages. Each page takes a microsecond of a fake clock, which nothing else
/// moves.
class call_pieces : public testing::Test {
protected:
  static constexpr std::size_t pages = 1'000'000;

  void run(milliseconds patience) {
    in_pieces(
        std::span(results), begin + patience,
        [&](std::size_t first, std::size_t count) {
          EXPECT_EQ(first, done) << "in order, none left out";
          for (std::size_t i = first; i < first + count; ++i)
            results[i].status = page_status::hit;
          now += std::chrono::microseconds(count);
          done += count;
        },
        [&] { return now; });
  }

  const deadline begin{std::chrono::hours(1)};
  deadline now = begin;
  std::size_t done = 0;
  std::vector<page_result> results = std::vector<page_result>(pages);
};

TEST_F(call_pieces, all_is_done_in_time) {
  run(milliseconds(2000));
  EXPECT_EQ(done, pages);
  for (const auto& each : results)
    ASSERT_EQ(each.status, page_status::hit);
}

TEST_F(call_pieces, the_end_is_at_most_one_piece_late_and_the_rest_is_timed_out) {
  for (const auto patience : {milliseconds(5), milliseconds(20), milliseconds(100)}) {
    done = 0;
    now = begin;
    run(patience);
    EXPECT_LE(now - begin - patience, milliseconds(9));
    EXPECT_LT(done, pages);
    for (std::size_t i = 0; i < pages; ++i)
      ASSERT_EQ(results[i].status, i < done ? page_status::hit : page_status::timed_out) << i;
  }
}

TEST_F(call_pieces, without_any_time_the_first_piece_is_looked_at) {
  run(milliseconds(0));
  EXPECT_EQ(done, limits::batch_pages_max);
}

} // namespace
} // namespace peercache::client
