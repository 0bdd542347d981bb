#include "config/units.hpp"

#include <gtest/gtest.h>

#include <random>

namespace peercache::config {
namespace {

using std::chrono::milliseconds;

TEST(sizes, decimal_units_count_in_1000_and_binary_ones_in_1024) {
  const std::pair<const char*, std::uint64_t> cases[] = {
      {"0", 0},
      {"1", 1},
      {"7B", 7},
      {"4k", 4000},
      {"4K", 4000},
      {"4kB", 4000},
      {"4KB", 4000},
      {"4Ki", 4096},
      {"4KiB", 4096},
      {"4kib", 4096},
      {"500MB", 500'000'000},
      {"64GiB", 64ull << 30},
      {"64 GiB", 64ull << 30},
      {"2T", 2'000'000'000'000},
      {"3PiB", 3ull << 50},
      {"15EiB", 15ull << 60},
      {"18446744073709551615", ~0ull},
  };
  for (const auto& [text, bytes] : cases) {
    auto parsed = parse_size(text);
    ASSERT_TRUE(parsed) << text << ": " << parsed.error().message;
    EXPECT_EQ(*parsed, bytes) << text;
  }
}

TEST(sizes, what_does_not_fit_into_64_bits_is_refused) {
  for (const char* text : {"18446744073709551616", "16EiB", "19EB", "18446744073709551615k",
                           "99999999999999999999999999"}) {
    auto parsed = parse_size(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_NE(parsed.error().message.find("too large"), std::string::npos) << text;
  }
}

TEST(sizes, anything_but_a_number_and_a_unit_is_refused) {
  for (const char* text : {"", " ", "GiB", "-1", "+1", "1.5GiB", "1x", "1kk", "1kiBB", "1ib", "1i",
                           "0x10", "1GiB ", "1 0", "1,000", " 1"})
    EXPECT_FALSE(parse_size(text)) << '"' << text << '"';
}

TEST(sizes, are_written_in_the_largest_binary_unit_that_is_exact) {
  EXPECT_EQ(format_size(0), "0B");
  EXPECT_EQ(format_size(1000), "1000B");
  EXPECT_EQ(format_size(1024), "1KiB");
  EXPECT_EQ(format_size(1536ull << 20), "1536MiB");
  EXPECT_EQ(format_size(1ull << 63), "8EiB");
}

TEST(sizes, every_size_survives_writing_and_reading) {
  const std::uint64_t seed = 20261120;
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 10'000; ++i) {
    const std::uint64_t bytes = (random() >> random() % 64) << random() % 64;
    auto parsed = parse_size(format_size(bytes));
    ASSERT_TRUE(parsed) << bytes;
    ASSERT_EQ(*parsed, bytes);
  }
}

TEST(durations, have_the_units_ms_s_m_and_h) {
  const std::pair<const char*, std::int64_t> cases[] = {
      {"0ms", 0},      {"500ms", 500},    {"2s", 2000},      {"2 s", 2000}, {"2S", 2000},
      {"5m", 300'000}, {"5min", 300'000}, {"1h", 3'600'000}, {"0s", 0},     {"90s", 90'000},
  };
  for (const auto& [text, value_ms] : cases) {
    auto parsed = parse_duration(text);
    ASSERT_TRUE(parsed) << text << ": " << parsed.error().message;
    EXPECT_EQ(*parsed, milliseconds(value_ms)) << text;
  }
}

TEST(durations, without_a_unit_or_too_large_are_refused) {
  for (const char* text : {"", "5", "s", "5d", "-5s", "1.5s", "5ss", "9223372036854775808ms",
                           "9223372036854775807s", "99999999999999999999s"})
    EXPECT_FALSE(parse_duration(text)) << text;
}

TEST(durations, every_duration_survives_writing_and_reading) {
  for (std::int64_t value_ms : {0, 1, 999, 1000, 1001, 2000, 60'000, 3'600'000}) {
    auto parsed = parse_duration(format_duration(milliseconds(value_ms)));
    ASSERT_TRUE(parsed);
    EXPECT_EQ(*parsed, milliseconds(value_ms));
  }
  EXPECT_EQ(format_duration(milliseconds(2000)), "2s");
  EXPECT_EQ(format_duration(milliseconds(1500)), "1500ms");
}

} // namespace
} // namespace peercache::config
