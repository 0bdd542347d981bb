#pragma once

// What every disk_io promises. Included by one source of each test program, which says over which
// versions it runs.

#include "tests/storage/disk/disk_io_rig.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <thread>

namespace peercache::storage {

class disk_io_conformance : public testing::TestWithParam<disk_io_version> {
protected:
  using kind = disk_request::kind;

  static constexpr std::uint32_t depth = 16;
  static constexpr std::uint32_t block = disk_block_bytes;

  void SetUp() override {
    std::string why;
    rig = GetParam().make(why);
    if (!rig)
      GTEST_SKIP() << why;
    io = rig->open(depth);
    ASSERT_TRUE(io);
    driver.emplace(*io);
  }

  disk_file created(const std::string& name, std::uint64_t bytes) {
    auto made = io->create(name, bytes);
    EXPECT_TRUE(made) << (made ? "" : to_string(made.error()));
    return made ? *made : disk_file();
  }

  std::string text_of(const std::string& name) {
    std::string text(100, '\0');
    const auto bytes = io->read_now(name, 0, std::as_writable_bytes(std::span(text)));
    return bytes ? text.substr(0, std::min<std::size_t>(*bytes, text.find('\0'))) : "?";
  }

  /// A file of one block that begins with this text.
  void put_text(const std::string& name, std::string_view text) {
    const block_memory memory(block);
    std::memcpy(memory.data(), text.data(), text.size());
    const auto file = created(name, block);
    EXPECT_EQ(driver->write(file, 0, memory.all()), 0);
    io->close(file);
  }

  template <class T>
  static errc code_of(const result<T>& what) {
    EXPECT_FALSE(what);
    return what ? errc{} : what.error().code;
  }

  std::unique_ptr<disk_io_rig> rig;
  std::unique_ptr<disk_io> io;
  std::optional<disk_io_driver> driver;
};

// -- transfers

TEST_P(disk_io_conformance, a_new_file_has_its_length_and_reads_as_zeros) {
  const auto file = created("a", 10 * block);
  EXPECT_EQ(*io->bytes_of(file), 10 * block);
  const block_memory memory(10 * block);
  memory.fill(1);
  ASSERT_EQ(driver->read(file, 0, memory.all()), 0);
  EXPECT_TRUE(same(memory.all(), block_memory(10 * block).all()));
}

TEST_P(disk_io_conformance, what_was_written_is_read_whatever_its_length_and_place) {
  const auto file = created("a", 16u << 20);
  for (const std::uint32_t blocks : {1u, 2u, 3u, 64u, 255u, 1024u, 2048u}) {
    const block_memory written(blocks * block);
    const block_memory read(blocks * block);
    for (const std::uint32_t at : {0u, 1u, 77u, 2048u}) {
      written.fill(blocks + at);
      ASSERT_EQ(driver->write(file, at * block, written.all()), 0);
      ASSERT_EQ(driver->read(file, at * block, read.all()), 0);
      ASSERT_TRUE(same(written.all(), read.all())) << blocks << " blocks at " << at;
    }
  }
}

TEST_P(disk_io_conformance, a_thousand_requests_complete_once_each) {
  constexpr std::uint32_t count = 1000;
  const auto file = created("a", count * block);
  const block_memory written(count * block);
  written.fill(5);
  std::vector<disk_request> writes;
  std::vector<disk_request> reads;
  const block_memory read(count * block);
  for (std::uint32_t i = 0; i < count; ++i) {
    writes.push_back(disk_io_driver::request(kind::write, file, i * block,
                                             written.part(i * block, block), i + 1));
    reads.push_back(
        disk_io_driver::request(kind::read, file, i * block, read.part(i * block, block), i + 1));
  }
  for (const auto* requests : {&writes, &reads}) {
    std::vector<int> completions(count + 1);
    for (const auto& done : driver->all(*requests)) {
      EXPECT_EQ(done.error, 0);
      ++completions.at(done.tag);
    }
    EXPECT_EQ(std::count(completions.begin(), completions.end(), 1), count);
    EXPECT_EQ(io->in_flight(), 0u);
  }
  EXPECT_TRUE(same(written.all(), read.all()));
}

TEST_P(disk_io_conformance, no_more_requests_are_taken_than_the_queue_is_deep) {
  const auto file = created("a", block);
  const block_memory memory(block * (depth + 1));
  ASSERT_EQ(io->queue_depth(), depth);
  for (std::uint32_t i = 0; i < depth; ++i) {
    ASSERT_TRUE(
        io->submit(disk_io_driver::request(kind::read, file, 0, memory.part(i * block, block), i)));
    ASSERT_EQ(io->in_flight(), i + 1);
  }
  const auto more =
      disk_io_driver::request(kind::read, file, 0, memory.part(depth * block, block), 99);
  EXPECT_FALSE(io->submit(more));
  EXPECT_EQ(io->in_flight(), depth);
  std::vector<disk_completion> done;
  while (done.size() < depth) {
    driver->reap(done);
    if (done.size() < depth)
      io->wait(std::chrono::seconds(60));
  }
  EXPECT_EQ(io->in_flight(), 0u);
  EXPECT_EQ(driver->one(more), 0);
  EXPECT_TRUE(
      std::none_of(done.begin(), done.end(), [](const auto& one) { return one.tag == 99; }));
}

TEST_P(disk_io_conformance, a_read_past_the_end_fails_even_when_it_begins_before) {
  const auto file = created("a", 4 * block);
  const block_memory memory(4 * block);
  EXPECT_EQ(driver->read(file, 4 * block, memory.part(0, block)), EIO);
  EXPECT_EQ(driver->read(file, 400 * block, memory.part(0, block)), EIO);
  EXPECT_EQ(driver->read(file, 3 * block, memory.part(0, 2 * block)), EIO);
  EXPECT_EQ(driver->read(file, block, memory.all()), EIO);
  EXPECT_EQ(driver->read(file, 3 * block, memory.part(0, block)), 0);
}

TEST_P(disk_io_conformance, a_read_of_a_last_block_that_is_not_whole_fails) {
  const auto file = created("a", 4 * block);
  ASSERT_TRUE(io->truncate(file, 2 * block + 100));
  EXPECT_EQ(*io->bytes_of(file), 2 * block + 100);
  const block_memory memory(3 * block);
  EXPECT_EQ(driver->read(file, 2 * block, memory.part(0, block)), EIO);
  EXPECT_EQ(driver->read(file, 0, memory.all()), EIO);
  EXPECT_EQ(driver->read(file, 0, memory.part(0, 2 * block)), 0);
}

TEST_P(disk_io_conformance, a_write_behind_the_end_makes_the_file_longer) {
  const auto file = created("a", 0);
  EXPECT_EQ(*io->bytes_of(file), 0u);
  const block_memory written(2 * block);
  written.fill(3);
  ASSERT_EQ(driver->write(file, 3 * block, written.all()), 0);
  EXPECT_EQ(*io->bytes_of(file), 5 * block);
  const block_memory read(5 * block);
  ASSERT_EQ(driver->read(file, 0, read.all()), 0);
  EXPECT_TRUE(same(read.part(0, 3 * block), block_memory(3 * block).all()));
  EXPECT_TRUE(same(read.part(3 * block, 2 * block), written.all()));
}

TEST_P(disk_io_conformance, syncs_complete_among_writes) {
  const auto file = created("a", 64 * block);
  const block_memory memory(64 * block);
  memory.fill(8);
  std::vector<disk_request> requests;
  for (std::uint32_t i = 0; i < 64; ++i) {
    requests.push_back(
        disk_io_driver::request(kind::write, file, i * block, memory.part(i * block, block), i));
    if (i % 8 == 0)
      requests.push_back(disk_io_driver::request(kind::sync, file, 0, {}, 1000 + i));
  }
  const auto done = driver->all(requests);
  ASSERT_EQ(done.size(), requests.size());
  EXPECT_TRUE(
      std::all_of(done.begin(), done.end(), [](const auto& one) { return one.error == 0; }));
  EXPECT_EQ(driver->sync(file), 0);
}

TEST_P(disk_io_conformance, files_that_are_open_together_are_kept_apart) {
  constexpr std::uint32_t count = 40;
  std::vector<disk_file> files;
  const block_memory memory(count * block);
  memory.fill(9);
  std::vector<disk_request> writes;
  for (std::uint32_t i = 0; i < count; ++i) {
    files.push_back(created("f" + std::to_string(i), block));
    if (i % 3 == 2) { // Handles are used again.
      io->close(files[i]);
      files[i] = *io->open("f" + std::to_string(i));
    }
    writes.push_back(
        disk_io_driver::request(kind::write, files[i], 0, memory.part(i * block, block), i));
  }
  driver->all(writes);
  const block_memory read(block);
  for (std::uint32_t i = 0; i < count; ++i) {
    ASSERT_EQ(driver->read(files[i], 0, read.all()), 0);
    ASSERT_TRUE(same(read.all(), memory.part(i * block, block))) << i;
  }
}

TEST_P(disk_io_conformance, transfers_that_are_not_whole_blocks_at_block_borders_are_our_bugs) {
  const auto file = created("a", 4 * block);
  const block_memory memory(4 * block);
  const auto good = disk_io_driver::request(kind::read, file, 0, memory.part(0, block));
  auto bad = good;
  bad.offset_bytes = 512;
  EXPECT_DEATH(io->submit(bad), "");
  bad = good;
  bad.memory += 512;
  EXPECT_DEATH(io->submit(bad), "");
  bad = good;
  bad.bytes = block - 1;
  EXPECT_DEATH(io->submit(bad), "");
  bad = good;
  bad.bytes = 0;
  EXPECT_DEATH(io->submit(bad), "");
  bad = good;
  bad.file.value += 1;
  EXPECT_DEATH(io->submit(bad), "");
  EXPECT_EQ(driver->one(good), 0);
}

TEST_P(disk_io_conformance, closing_a_file_that_a_request_is_on_its_way_for_is_our_bug) {
  const auto file = created("a", block);
  const block_memory memory(block);
  ASSERT_TRUE(io->submit(disk_io_driver::request(kind::read, file, 0, memory.all())));
  EXPECT_DEATH(io->close(file), "");
  std::vector<disk_completion> done;
  for (driver->reap(done); done.empty(); driver->reap(done))
    io->wait(std::chrono::seconds(60));
  io->close(file);
  EXPECT_DEATH(io->close(file), "");
}

TEST_P(disk_io_conformance, after_its_end_the_memory_of_requests_on_their_way_is_nobodys) {
  const auto file = created("a", depth * 16 * block);
  {
    const block_memory memory(depth * 16 * block);
    for (std::uint32_t i = 0; i < depth; ++i)
      ASSERT_TRUE(io->submit(disk_io_driver::request(i % 2 == 0 ? kind::read : kind::write, file,
                                                     i * 16 * block,
                                                     memory.part(i * 16 * block, 16 * block), i)));
    io->wait(std::chrono::nanoseconds(0)); // They have started.
    io.reset();
  } // A transfer that goes on now is one that the sanitizer sees, or this:
  const block_memory again(depth * 16 * block);
  again.fill(1);
  const block_memory expected(depth * 16 * block);
  expected.fill(1);
  EXPECT_TRUE(same(again.all(), expected.all()));
}

TEST_P(disk_io_conformance, registered_memory_and_other_memory_are_transferred_alike) {
  const block_memory memory(64 * block);
  const block_memory other(8 * block);
  const auto first = io->register_memory(memory.part(8 * block, 16 * block));
  const auto second = io->register_memory(memory.part(40 * block, 16 * block));
  for (const auto* made : {&first, &second})
    EXPECT_TRUE(*made || made->error().code == errc::out_of_memory) << to_string(made->error());
  memory.fill(7);
  const auto file = created("a", 64 * block);
  // Within, across its begin, across its end, between, and elsewhere.
  for (const std::uint32_t at : {8u, 16u, 20u, 4u, 22u, 30u, 38u, 40u, 48u, 52u, 56u}) {
    ASSERT_EQ(driver->write(file, 0, memory.part(at * block, 8 * block)), 0) << at;
    ASSERT_EQ(driver->read(file, 0, other.all()), 0);
    ASSERT_TRUE(same(other.all(), memory.part(at * block, 8 * block))) << at;
    ASSERT_EQ(driver->write(file, 8 * block, other.all()), 0);
    memory.fill(at * block, 8 * block, 1000 + at);
    ASSERT_EQ(driver->read(file, 8 * block, memory.part(at * block, 8 * block)), 0);
    ASSERT_TRUE(same(other.all(), memory.part(at * block, 8 * block))) << at;
  }
}

// -- waiting

TEST_P(disk_io_conformance, a_wait_ends_when_a_completion_is_there) {
  const auto file = created("a", block);
  const block_memory memory(block);
  ASSERT_TRUE(io->submit(disk_io_driver::request(kind::write, file, 0, memory.all(), 5)));
  io->wait(std::chrono::minutes(10));
  std::vector<disk_completion> done;
  driver->reap(done);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].tag, 5u);
}

TEST_P(disk_io_conformance, a_wait_ends_when_its_time_is_over) {
  for (const auto at_most : {std::chrono::nanoseconds(-5), std::chrono::nanoseconds(0),
                             std::chrono::nanoseconds(1), std::chrono::nanoseconds(2'000'000)})
    io->wait(at_most);
  std::vector<disk_completion> done;
  driver->reap(done);
  EXPECT_TRUE(done.empty());
}

TEST_P(disk_io_conformance, a_wake_ends_the_next_wait_even_when_it_came_before) {
  for (int i = 0; i < 100; ++i) {
    io->wake();
    io->wake();
    std::vector<disk_completion> done;
    if (i % 2 == 0)
      driver->reap(done); // Does not swallow it.
    io->wait(std::chrono::minutes(10));
    EXPECT_TRUE(done.empty());
  }
}

TEST_P(disk_io_conformance, a_wake_from_another_thread_ends_a_wait) {
  constexpr int rounds = 500;
  std::atomic<int> asked{0};
  std::thread other([&] {
    for (int i = 1; i <= rounds; ++i) {
      asked.store(i);
      io->wake();
      while (asked.load() != -i)
        std::this_thread::yield();
    }
  });
  for (int i = 1; i <= rounds; ++i) {
    while (asked.load() != i)
      io->wait(std::chrono::minutes(10));
    asked.store(-i);
  }
  other.join();
}

TEST_P(disk_io_conformance, wakes_from_other_threads_disturb_no_transfer) {
  const auto file = created("a", 64 * block);
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop.load())
      io->wake();
  });
  const block_memory written(64 * block);
  const block_memory read(64 * block);
  for (unsigned round = 0; round < 20; ++round) {
    written.fill(round);
    std::vector<disk_request> requests;
    for (std::uint32_t i = 0; i < 64; ++i)
      requests.push_back(
          disk_io_driver::request(kind::write, file, i * block, written.part(i * block, block), i));
    EXPECT_EQ(driver->all(requests).size(), 64u);
    EXPECT_EQ(driver->read(file, 0, read.all()), 0);
    EXPECT_TRUE(same(written.all(), read.all()));
  }
  stop.store(true);
  other.join();
}

// -- files and folders

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
  ASSERT_TRUE(io->make_folder("x/y")); // No error.
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
  for (const auto* folder : {"", "x", "x/y"})
    EXPECT_TRUE(io->sync_folder(folder));
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
