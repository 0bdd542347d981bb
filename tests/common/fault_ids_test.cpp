#include "common/fault_ids.hpp"

#include <algorithm>
#include <fstream>
#include <gtest/gtest.h>
#include <set>
#include <string>

namespace peercache::fault_ids_test {

/// The rows of docs/errors.md begin with the id in backticks.
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

} // namespace peercache::fault_ids_test
