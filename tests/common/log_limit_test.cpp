#include "common/log_limit.hpp"

#include <gtest/gtest.h>

namespace peercache {
namespace {

using namespace std::chrono_literals;

TEST(log_limit, a_source_has_one_line_a_minute_and_others_theirs) {
  log_limit lines;
  const log_limit::time_point begin{1h};
  EXPECT_TRUE(lines.allows("a", begin));
  EXPECT_FALSE(lines.allows("a", begin + 59s));
  EXPECT_TRUE(lines.allows("b", begin + 59s));
  EXPECT_TRUE(lines.allows("a", begin + 60s));
}

TEST(log_limit, a_thousand_sources_have_a_bounded_number_of_lines) {
  log_limit lines;
  const log_limit::time_point begin{1h};
  std::size_t allowed = 0;
  for (int i = 0; i < 1000; ++i)
    allowed += lines.allows(std::to_string(i), begin);
  EXPECT_EQ(allowed, log_limit::sources_max);
  EXPECT_TRUE(lines.allows("late", begin + 1min));
}

} // namespace
} // namespace peercache
