#include "cli/output.hpp"

#include <algorithm>
#include <gtest/gtest.h>
#include <sstream>

namespace peercache::cli {

TEST(output, columns_align_and_lines_end_without_blanks) {
  text_table table({{"NODE"}, {"PAGES", text_table::align::right}, {"STATE"}});
  table.add_row({"node-1", "12", "ready"});
  table.add_row({"n", "1,234"});
  EXPECT_EQ(table.to_string(false), "NODE    PAGES  STATE\n"
                                    "node-1     12  ready\n"
                                    "n       1,234\n");
}

TEST(output, only_the_head_of_a_coloured_table_has_control_sequences) {
  text_table table({{"A"}});
  table.add_row({"b"});
  EXPECT_EQ(table.to_string(true), "\x1b[1mA\x1b[0m\nb\n");
}

TEST(output, letters_of_several_bytes_take_one_column) {
  fact_list facts;
  facts.add("größe", "1");
  facts.add("abc", "2");
  EXPECT_EQ(facts.to_string(), "größe  1\nabc    2\n");
}

TEST(output, bytes_are_said_in_the_unit_that_fits) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(16384), "16.0 KiB");
  EXPECT_EQ(human_bytes(1536u << 20), "1.5 GiB");
  EXPECT_EQ(human_bytes((1u << 20) - 1), "1.0 MiB");
}

TEST(output, counts_get_separators_every_three_digits) {
  EXPECT_EQ(human_count(0), "0");
  EXPECT_EQ(human_count(999), "999");
  EXPECT_EQ(human_count(1000), "1,000");
  EXPECT_EQ(human_count(288500), "288,500");
  EXPECT_EQ(human_count(18446744073709551615u), "18,446,744,073,709,551,615");
}

TEST(output, durations_are_said_in_the_unit_that_fits) {
  using namespace std::chrono_literals;
  EXPECT_EQ(human_duration(85ms), "85 ms");
  EXPECT_EQ(human_duration(12345ms), "12.3 s");
  EXPECT_EQ(human_duration(245s), "4 min 05 s");
  EXPECT_EQ(human_duration(11520s), "3 h 12 min");
}

TEST(output, a_progress_line_never_wraps) {
  auto line = progress_bar::line("replaying", 1, 4, "hit rate 36.6 %", 200);
  EXPECT_EQ(line, "replaying [######..................]  25 % 1/4  hit rate 36.6 %");
  EXPECT_EQ(progress_bar::line("replaying", 1, 4, "note", 20).size(), 20u);
}

TEST(output, progress_says_nothing_when_nobody_looks) {
  auto* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  {
    progress_bar bar(file, "working", 10);
    bar.update(5);
    bar.update(10);
  }
  EXPECT_EQ(std::ftell(file), 0);
  EXPECT_FALSE(colour_allowed(file));
  std::fclose(file);
}

namespace {

/// Returns the number of columns of the longest line.
std::size_t longest_of(const std::string& text) {
  std::size_t longest = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    longest = std::max(longest, line.size());
  return longest;
}

} // namespace

TEST(output, text_breaks_at_blanks_and_a_long_word_is_cut) {
  using lines = std::vector<std::string>;
  EXPECT_EQ(wrapped("one two three", 7), (lines{"one two", "three"}));
  EXPECT_EQ(wrapped("one two three", 0), (lines{"one two three"}));
  EXPECT_EQ(wrapped("abcdefgh ij", 3), (lines{"abc", "def", "gh", "ij"}));
  EXPECT_EQ(wrapped("größer", 6), (lines{"größer"}));
  EXPECT_EQ(wrapped("", 5), (lines{""}));
}

TEST(output, facts_go_on_below_their_values) {
  fact_list facts;
  facts.add("cluster", "degraded");
  facts.add("", "- node-3 does not answer, and its pages are misses until it does [node-silent]");
  EXPECT_EQ(facts.to_string(40), "cluster  degraded\n"
                                 "         - node-3 does not answer, and\n"
                                 "         its pages are misses until it\n"
                                 "         does [node-silent]\n");
  EXPECT_LE(longest_of(facts.to_string(80)), 80u);
  EXPECT_EQ(facts.to_string(0).find("\n  "), facts.to_string(0).find('\n')) << "no further lines";
}

TEST(output, the_widest_column_of_words_is_broken_and_no_number) {
  text_table table({{"NODE"}, {"STATE"}, {"PAGES", text_table::align::right}});
  table.add_row({"node-1", "unready: the pool is taken over from the node before", "1,234,567"});
  table.add_row({"node-2", "ready", "2"});
  EXPECT_EQ(table.to_string(false, 40), "NODE    STATE                      PAGES\n"
                                        "node-1  unready: the pool is   1,234,567\n"
                                        "        taken over from the\n"
                                        "        node before\n"
                                        "node-2  ready                          2\n");
  EXPECT_LE(longest_of(table.to_string(false, 66)), 66u);
  EXPECT_EQ(table.to_string(false, 80), table.to_string(false, 0));
  EXPECT_EQ(longest_of(table.to_string(true, 40)), 40 + 8) << "the head line's control sequences";
}

TEST(output, a_table_of_numbers_that_is_too_wide_is_folded) {
  using side = text_table::align;
  text_table table(
      {{"NODE"}, {"STATE"}, {"POOL", side::right}, {"USED", side::right}, {"PAGES", side::right}});
  table.add_row({"node-1", "ready", "12.0 GiB", "12.25 %", "1,234,567"});
  table.add_row({"node-2", "gone: silent"});
  EXPECT_EQ(table.to_string(false, 30), "NODE    STATE             POOL\n"
                                        "       USED      PAGES\n"
                                        "node-1  ready         12.0 GiB\n"
                                        "    12.25 %  1,234,567\n"
                                        "node-2  gone: silent\n");
  for (std::size_t width = 14; width < 60; ++width)
    EXPECT_LE(longest_of(table.to_string(false, width)), width);
  EXPECT_EQ(table.to_string(false, 60), table.to_string(false, 0));
}

TEST(output, help_keeps_its_columns_as_far_as_they_fit) {
  const std::string help = "Usage: peercache status [OPTIONS]\n"
                           "  --timeout DURATION          How long one call may take, all in all "
                           "and for each node\n";
  EXPECT_EQ(wrapped_help(help, 80),
            "Usage: peercache status [OPTIONS]\n"
            "  --timeout DURATION          How long one call may take, all in all and for\n"
            "                              each node\n");
  EXPECT_EQ(wrapped_help(help, 40), "Usage: peercache status [OPTIONS]\n"
                                    "  --timeout DURATION\n"
                                    "      How long one call may take, all in\n"
                                    "      all and for each node\n");
  EXPECT_EQ(wrapped_help(help, 0), help);
}

} // namespace peercache::cli
