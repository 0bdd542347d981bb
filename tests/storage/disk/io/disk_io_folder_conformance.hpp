#pragma once

// The tests of files and folders that every version of disk_io must pass.

#include "tests/storage/disk/io/disk_io_conformance_fixture.hpp"

#include <atomic>
#include <thread>

namespace peercache::storage {

TEST_P(disk_io_conformance, a_file_cannot_be_created_twice) {
  put_text("a", "first");
  EXPECT_EQ(code_of(io->create("a", block)), errc::refused);
  EXPECT_EQ(text_of("a"), "first");
}

TEST_P(disk_io_conformance, what_is_not_there_is_not_found) {
  EXPECT_EQ(code_of(io->open("a")), errc::not_found);
  EXPECT_EQ(code_of(io->create("no/a", block)), errc::not_found);
  EXPECT_EQ(code_of(io->rename("a", "b")), errc::not_found);
  EXPECT_EQ(code_of(io->remove("a")), errc::not_found);
  EXPECT_EQ(code_of(io->make_folder("no/folder")), errc::not_found);
  EXPECT_EQ(code_of(io->sync_folder("no")), errc::not_found);
  EXPECT_EQ(code_of(io->open_folder("no")), errc::not_found);
  EXPECT_EQ(code_of(io->list("no")), errc::not_found);
  EXPECT_EQ(code_of(io->read_now("a", 0, {})), errc::not_found);
  put_text("b", "b");
  EXPECT_EQ(code_of(io->rename("b", "no/b")), errc::not_found);
  EXPECT_EQ(text_of("b"), "b");
}

TEST_P(disk_io_conformance, a_folder_is_no_file_and_a_file_is_no_folder) {
  ASSERT_TRUE(io->make_folder("folder"));
  put_text("file", "file");
  EXPECT_EQ(code_of(io->open("folder")), errc::invalid_argument);
  std::byte one{};
  EXPECT_EQ(code_of(io->read_now("folder", 0, {&one, 1})), errc::invalid_argument);
  EXPECT_EQ(code_of(io->remove("folder")), errc::invalid_argument);
  EXPECT_EQ(code_of(io->rename("file", "folder")), errc::invalid_argument);
  EXPECT_EQ(code_of(io->make_folder("file")), errc::invalid_argument);
  EXPECT_EQ(code_of(io->list("file")), errc::invalid_argument);
  EXPECT_EQ(code_of(io->open_folder("file")), errc::invalid_argument);
  EXPECT_EQ(code_of(io->create("file/a", block)), errc::invalid_argument);
}

TEST_P(disk_io_conformance, rename_replaces_and_open_files_stay_what_they_were) {
  put_text("old", "old");
  put_text("new", "new");
  const auto old_file = *io->open("old");
  ASSERT_TRUE(io->rename("new", "old"));
  EXPECT_EQ(text_of("old"), "new");
  EXPECT_EQ(code_of(io->open("new")), errc::not_found);
  const block_memory memory(block);
  ASSERT_EQ(driver->read(old_file, 0, memory.all()), 0);
  EXPECT_STREQ(reinterpret_cast<const char*>(memory.data()), "old");
  io->close(old_file);
  ASSERT_TRUE(io->make_folder("folder"));
  ASSERT_TRUE(io->rename("old", "folder/moved"));
  EXPECT_EQ(text_of("folder/moved"), "new");
}

TEST_P(disk_io_conformance, a_removed_file_can_be_read_until_it_is_closed) {
  put_text("a", "still");
  const auto file = *io->open("a");
  ASSERT_TRUE(io->remove("a"));
  EXPECT_EQ(code_of(io->open("a")), errc::not_found);
  const block_memory memory(block);
  ASSERT_EQ(driver->read(file, 0, memory.all()), 0);
  EXPECT_STREQ(reinterpret_cast<const char*>(memory.data()), "still");
  io->close(file);
  put_text("a", "again");
  EXPECT_EQ(text_of("a"), "again");
}

TEST_P(disk_io_conformance, a_folder_lists_what_is_in_it_and_nothing_else) {
  ASSERT_TRUE(io->make_folder("x"));
  ASSERT_TRUE(io->make_folder("x/y"));
  ASSERT_TRUE(io->make_folder("x/y")); // Making a folder that exists is not an error.
  created("x/b", 3 * block);
  created("x/y/deep", block);
  created("xa", 0);
  const auto listed = [&](const std::string& folder) {
    auto entries = io->list(folder);
    EXPECT_TRUE(entries);
    std::vector<std::string> words;
    for (const auto& one : *entries)
      words.push_back(one.name + (one.folder ? "/" : " " + std::to_string(one.bytes)));
    std::sort(words.begin(), words.end());
    return words;
  };
  using words = std::vector<std::string>;
  EXPECT_EQ(listed(""), (words{"x/", "xa 0"}));
  EXPECT_EQ(listed("x"), (words{"b 12288", "y/"}));
  EXPECT_EQ(listed("x/y"), (words{"deep 4096"}));
  for (const auto* folder : {"", "x", "x/y"}) {
    EXPECT_TRUE(io->sync_folder(folder));
    const auto opened = io->open_folder(folder);
    ASSERT_TRUE(opened);
    EXPECT_EQ(driver->sync_folder(*opened), 0);
    io->close(*opened);
  }
}

TEST_P(disk_io_conformance, names_that_would_leave_the_folder_are_refused) {
  put_text("a", "a");
  for (const std::string& name :
       {std::string(""), std::string("/etc/passwd"), std::string("/"), std::string("."),
        std::string(".."), std::string("../a"), std::string("b/../../a"), std::string("b/.."),
        std::string("b//c"), std::string("./b"), std::string("b/"), std::string("a\0b", 3)}) {
    EXPECT_EQ(code_of(io->create(name, block)), errc::invalid_argument) << name;
    EXPECT_EQ(code_of(io->open(name)), errc::invalid_argument) << name;
    EXPECT_EQ(code_of(io->rename("a", name)), errc::invalid_argument) << name;
    EXPECT_EQ(code_of(io->rename(name, "b")), errc::invalid_argument) << name;
    EXPECT_EQ(code_of(io->remove(name)), errc::invalid_argument) << name;
    EXPECT_EQ(code_of(io->make_folder(name)), errc::invalid_argument) << name;
    EXPECT_EQ(code_of(io->read_now(name, 0, {})), errc::invalid_argument) << name;
    if (!name.empty()) {
      EXPECT_EQ(code_of(io->list(name)), errc::invalid_argument) << name;
      EXPECT_EQ(code_of(io->sync_folder(name)), errc::invalid_argument) << name;
      EXPECT_EQ(code_of(io->open_folder(name)), errc::invalid_argument) << name;
    }
  }
  EXPECT_EQ(text_of("a"), "a");
  EXPECT_TRUE(io->create("...", block)) << "unusual, but inside";
}

TEST_P(disk_io_conformance, what_truncate_cut_off_reads_as_zeros_when_the_file_grows_again) {
  const auto file = created("a", 4 * block);
  const block_memory memory(4 * block);
  memory.fill(2);
  ASSERT_EQ(driver->write(file, 0, memory.all()), 0);
  ASSERT_TRUE(io->truncate(file, block + 10));
  ASSERT_TRUE(io->truncate(file, 4 * block));
  const block_memory read(4 * block);
  ASSERT_EQ(driver->read(file, 0, read.all()), 0);
  EXPECT_TRUE(same(read.part(0, block + 10), memory.part(0, block + 10)));
  EXPECT_TRUE(same(read.part(block + 10, 3 * block - 10), block_memory(3 * block - 10).all()));
}

TEST_P(disk_io_conformance, read_now_reads_any_range_up_to_the_end) {
  const auto file = created("a", 4 * block);
  const block_memory memory(4 * block);
  memory.fill(4);
  ASSERT_EQ(driver->write(file, 0, memory.all()), 0);
  ASSERT_TRUE(io->truncate(file, 3 * block + 5));
  std::vector<std::byte> into(4 * block);
  const auto expect = [&](std::uint64_t at, std::size_t asked, std::size_t bytes) {
    const auto got = io->read_now("a", at, std::span(into).first(asked));
    ASSERT_TRUE(got);
    ASSERT_EQ(*got, bytes) << at;
    EXPECT_TRUE(same(std::span(into).first(bytes),
                     memory.part(std::min<std::size_t>(at, memory.size()), bytes)));
  };
  expect(0, 1, 1);
  expect(511, 1026, 1026);
  expect(0, 4 * block, 3 * block + 5);
  expect(3 * block + 4, 10, 1);
  expect(3 * block + 5, 10, 0);
  expect(100 * block, 10, 0);
}

TEST_P(disk_io_conformance, several_threads_read_now_and_list_while_the_owner_writes) {
  constexpr std::uint32_t count = 32;
  const block_memory memory(count * block);
  memory.fill(6);
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto file = created("f" + std::to_string(i), block);
    ASSERT_EQ(driver->write(file, 0, memory.part(i * block, block)), 0);
    io->close(file);
  }
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::vector<std::byte> into(block - 3);
      for (std::uint32_t round = 0; round < 200; ++round) {
        const auto i = (round * 7 + t) % count;
        const auto got = io->read_now("f" + std::to_string(i), 3, into);
        if (!got || *got != into.size() || !same(into, memory.part(i * block + 3, block - 3)))
          ++wrong;
        if (round % 50 == 0 && io->list("")->size() < count)
          ++wrong;
      }
    });
  const auto own = created("own", 64 * block);
  for (int i = 0; i < 50; ++i)
    EXPECT_EQ(driver->write(own, 0, block_memory(64 * block).all()), 0);
  for (auto& one : threads)
    one.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST_P(disk_io_conformance, there_is_not_more_room_than_there_is) {
  const auto space = io->space();
  ASSERT_TRUE(space);
  EXPECT_GT(space->free_bytes, 0u);
  EXPECT_LE(space->free_bytes, space->total_bytes);
}

} // namespace peercache::storage
