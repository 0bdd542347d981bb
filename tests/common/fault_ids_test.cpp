#include "common/fault_ids.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace peercache::fault_ids_test {

/// Compares the ids with the rows of docs/errors.md, each of which begins with an id in backticks.
TEST(fault_ids, each_has_a_row_in_the_documents_and_each_row_an_id) {
  std::ifstream page(PEERCACHE_SOURCE_DIR "/docs/errors.md");
  ASSERT_TRUE(page);
  std::multiset<std::string> rows;
  for (std::string line; std::getline(page, line);)
    if (line.starts_with("| `"))
      rows.insert(line.substr(3, line.find('`', 3) - 3));
  const std::multiset<std::string> ids(fault_ids::all.begin(), fault_ids::all.end());
  EXPECT_EQ(rows, ids);
  EXPECT_EQ(std::set<std::string>(ids.begin(), ids.end()).size(), ids.size())
      << "one is given twice";
}

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Returns the names of a header's constants as code uses them: with `prefix` before each.
std::vector<std::string> names_in(const char* header, const std::string& prefix) {
  const auto text = text_of(PEERCACHE_SOURCE_DIR + std::string(header));
  const std::regex constant("inline constexpr name ([a-z_]+) =");
  std::vector<std::string> names;
  for (std::sregex_iterator at(text.begin(), text.end(), constant), end; at != end; ++at)
    names.push_back(prefix + at->str(1));
  return names;
}

/// Whether `text` has `name` as a whole word.
bool has_word(const std::string& text, const std::string& name) {
  for (auto at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
    const auto next = text[std::min(at + name.size(), text.size() - 1)];
    if (next != '_' && !std::isalnum(static_cast<unsigned char>(next)))
      return true;
  }
  return false;
}

TEST(fault_ids, each_fault_and_each_check_of_doctor_stands_in_a_test) {
  std::string tests;
  for (const auto& file :
       std::filesystem::recursive_directory_iterator(PEERCACHE_SOURCE_DIR "/tests"))
    if (file.path().extension() == ".cpp")
      tests += text_of(file.path());
  auto names = names_in("/common/fault_ids.hpp", "fault_ids::");
  EXPECT_EQ(names.size(), fault_ids::all.size());
  const auto checks = names_in("/cli/doctor/check_ids.hpp", "check_ids::");
  EXPECT_FALSE(checks.empty());
  names.insert(names.end(), checks.begin(), checks.end());
  for (const auto& name : names)
    EXPECT_TRUE(has_word(tests, name)) << name;
}

} // namespace peercache::fault_ids_test
