// Tests of the command line at a terminal: it asks before it does what cannot be undone, and its
// lines fit the terminal's width.

#include "disk_node.hpp"
#include "local_ring.hpp"
#include "terminal_program.hpp"

#include <algorithm>
#include <sstream>

namespace peercache::real::cli_terminal_test {

namespace {

/// Returns the number of columns of an output's longest line. @pre the output has no control
/// sequences
std::size_t longest_of(const std::string& said) {
  std::size_t longest = 0;
  std::istringstream lines(said);
  for (std::string line; std::getline(lines, line);) {
    const auto letters = std::count_if(line.begin(), line.end(),
                                       [](char c) { return c != '\r' && (c & 0xc0) != 0x80; });
    longest = std::max(longest, static_cast<std::size_t>(letters));
  }
  return longest;
}

/// Returns what `peercache` with the arguments `words` writes at a terminal of this width.
std::string written_at(unsigned short columns, std::vector<std::string> words) {
  terminal_program program(std::move(words), columns);
  program.finish();
  return program.said();
}

/// Runs a command that asks a question, and types the answer. Returns the exit status.
int answer(std::vector<std::string> words, const std::string& typed) {
  terminal_program program(std::move(words));
  EXPECT_TRUE(program.says("Type yes")) << program.said();
  program.type(typed + "\n");
  return program.finish();
}

class cli_terminal : public local_ring {
protected:
  std::vector<std::string> words_of(std::vector<std::string> words, std::size_t at = 0) {
    words.insert(words.end(), {"--cluster", cluster(), "--node", address(at)});
    return words;
  }
  bool takes_pages(std::size_t at) {
    return run_cli(words_of({"put", "k" + std::to_string(++keys_), "--value", "x"}, at))
               .exit_code == 0;
  }

private:
  int keys_ = 0;
};

} // namespace

TEST_F(cli_terminal, the_last_owner_is_drained_when_somebody_types_yes) {
  for (const char* name : {"node-1", "node-2"})
    ASSERT_EQ(run_cli(words_of({"drain", name})).exit_code, 0);
  const auto drain = words_of({"drain", "node-3"});
  ASSERT_TRUE(within(milliseconds(10'000), [&] { return run_cli(drain).exit_code == 2; }));
  for (const char* typed : {"n", "no", ""})
    EXPECT_EQ(answer(drain, typed), 1) << typed;
  EXPECT_TRUE(takes_pages(2));
  EXPECT_EQ(answer(drain, "yes"), 0);
  EXPECT_FALSE(takes_pages(2));
}

TEST(cli_terminal_disk, is_emptied_when_somebody_types_yes) {
  constexpr std::uint32_t pages = 50;
  disk_node::options options;
  options.store = "file_per_key"; // Pages are on disk at once.
  disk_node node(options);
  ASSERT_NO_FATAL_FAILURE(node.put_to_disk(0, pages));
  const std::vector<std::string> where{"--cluster", node.cluster(), "--node", node.address()};
  const auto with = [&where](std::vector<std::string> words) {
    words.insert(words.end(), where.begin(), where.end());
    return words;
  };
  const auto pages_left = [&] {
    return run_cli(with({"disk", "status", "disk-node", "-o", "json"})).json()["pages"];
  };
  const auto evict = with({"disk", "evict", "disk-node", "--all"});
  EXPECT_EQ(answer(evict, "n"), 1);
  EXPECT_EQ(pages_left(), pages);
  EXPECT_EQ(answer(evict, "yes"), 0);
  EXPECT_EQ(pages_left(), 0);
}

TEST_F(cli_terminal, facts_and_tables_keep_to_its_width) {
  auto lost = words_of({"status", "--timeout", "300ms"});
  freeze(2);
  EXPECT_GT(longest_of(written_at(200, lost)), 80u) << "there is something to break";
  for (const unsigned short columns : {80, 40}) {
    const auto status = written_at(columns, lost);
    EXPECT_LE(longest_of(status), columns) << status;
    EXPECT_NE(status.find("node-3"), std::string::npos) << status;
  }
  for (const unsigned short columns : {80, 40}) {
    const auto nodes = written_at(columns, words_of({"nodes", "--timeout", "300ms"}));
    EXPECT_LE(longest_of(nodes), columns + 8u) << nodes; // The head line has 8 control characters.
    for (const char* part : {"EVICTIONS", "RECORDS", "32.0 MiB"})
      EXPECT_NE(nodes.find(part), std::string::npos) << nodes;
  }
  const auto table = written_at(80, words_of({"exists", std::string(150, 'k'), "key"}));
  EXPECT_LE(longest_of(table), 80u + 8) << table; // The head line has 8 control characters.
  EXPECT_GT(longest_of(run_cli(lost).output), 80u) << "no terminal, no width";
}

TEST(cli_terminal_help, keeps_to_its_width_and_to_100_columns) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--help"}, {"bench", "disk", "--help"}, {"help", "top"}}) {
    EXPECT_LE(longest_of(written_at(40, words)), 40u) << words.front();
    EXPECT_LE(longest_of(written_at(80, words)), 80u) << words.front();
    EXPECT_LE(longest_of(written_at(200, words)), 100u) << words.front();
  }
  EXPECT_GT(longest_of(run_cli({"bench", "disk", "--help"}).output), 100u);
}

} // namespace peercache::real::cli_terminal_test
