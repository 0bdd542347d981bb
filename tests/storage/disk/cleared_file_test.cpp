#include "storage/disk/cleared_file.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>

namespace peercache::storage {
namespace {

class cleared_file_test : public testing::Test {
protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "peercache-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::string folder;
};

TEST_F(cleared_file_test, what_was_written_last_is_read) {
  EXPECT_EQ(*read_cleared(folder), "");
  ASSERT_TRUE(write_cleared(folder, "one"));
  ASSERT_TRUE(write_cleared(folder, "and another one"));
  EXPECT_EQ(*read_cleared(folder), "and another one");
}

TEST_F(cleared_file_test, an_unfinished_write_leaves_what_was_there) {
  ASSERT_TRUE(write_cleared(folder, "one"));
  std::ofstream(folder + "/disk.cleared.new") << "half of";
  EXPECT_EQ(*read_cleared(folder), "one");
}

TEST_F(cleared_file_test, a_damaged_file_is_an_error_and_not_an_empty_one) {
  ASSERT_TRUE(write_cleared(folder, "some spaces"));
  const auto name = folder + "/disk.cleared";
  const auto bytes = std::filesystem::file_size(name);
  for (std::uintmax_t i = 0; i < bytes; ++i) {
    ASSERT_TRUE(write_cleared(folder, "some spaces"));
    std::fstream file(name, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(i));
    const auto flipped = static_cast<char>(file.get() ^ 4);
    file.seekp(static_cast<std::streamoff>(i));
    file.put(flipped);
    file.close();
    const auto read = read_cleared(folder);
    ASSERT_FALSE(read) << "byte " << i;
    EXPECT_NE(read.error().message.find("Empty the folder"), std::string::npos);
  }
  std::filesystem::resize_file(name, 10);
  EXPECT_FALSE(read_cleared(folder));
}

TEST_F(cleared_file_test, a_folder_that_takes_no_file_is_an_error) {
  EXPECT_FALSE(write_cleared(folder + "/not there", "one"));
}

} // namespace
} // namespace peercache::storage
