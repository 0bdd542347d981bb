#include "cli/node_process.hpp"

#include <gtest/gtest.h>

namespace peercache::cli {

TEST(node_process, a_ready_line_is_read_back_as_it_was_said) {
  ready_line said{31998, 31999, 31997, 4711};
  EXPECT_EQ(said.to_string(), "ready control=31998 data=31999 http=31997 pid=4711");
  auto read = ready_line::parse(said.to_string());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->control_port, 31998);
  EXPECT_EQ(read->data_port, 31999);
  EXPECT_EQ(read->http_port, 31997);
  EXPECT_EQ(read->pid, 4711);
}

TEST(node_process, any_other_line_is_not_a_ready_line) {
  for (const char* line :
       {"", "ready", "ready control=1 data=2 http=3", "ready control=1 data=2 http=3 pid=4 x",
        "ready control=99999 data=2 http=3 pid=4", "ready control= data=2 http=3 pid=4"})
    EXPECT_FALSE(ready_line::parse(line)) << line;
}

TEST(node_process, a_run_folder_goes_with_its_run_unless_it_is_kept) {
  std::filesystem::path gone;
  std::filesystem::path kept;
  {
    auto folder = run_folder::make("peercache-test");
    ASSERT_TRUE(folder);
    gone = folder->path();
    EXPECT_TRUE(std::filesystem::is_directory(gone));
    auto other = run_folder::make("peercache-test");
    ASSERT_TRUE(other);
    kept = other->path();
    other->keep();
  }
  EXPECT_FALSE(std::filesystem::exists(gone));
  EXPECT_TRUE(std::filesystem::exists(kept));
  std::filesystem::remove_all(kept);
}

} // namespace peercache::cli
