#pragma once

// The tests of transfers that every version of disk_io must pass; includes those of waits and
// wakes.

#include "tests/storage/disk/io/disk_io_conformance_fixture.hpp"
#include "tests/storage/disk/io/disk_io_wait_conformance.hpp"

#include <cerrno>

namespace peercache::storage {

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

TEST_P(disk_io_conformance, a_write_with_a_head_is_the_head_and_its_memory_behind_it) {
  const auto file = created("a", 0);
  const block_memory head(block);
  head.fill(1);
  const block_memory registered(64 * block);
  (void)io->register_memory(registered.all());
  const block_memory other(64 * block);
  std::uint64_t end = 0;
  for (const auto* memory : {&registered, &other})
    for (const std::uint32_t blocks : {1u, 2u, 16u, 64u}) {
      memory->fill(blocks);
      auto write = disk_io_driver::request(kind::write, file, end, memory->part(0, blocks * block));
      write.head = head.data();
      ASSERT_EQ(driver->one(write), 0);
      const block_memory read((blocks + 1) * block);
      ASSERT_EQ(driver->read(file, end, read.all()), 0);
      ASSERT_TRUE(same(read.part(0, block), head.all()));
      ASSERT_TRUE(same(read.part(block, blocks * block), memory->part(0, blocks * block)));
      end += (blocks + 1) * block;
      EXPECT_EQ(*io->bytes_of(file), end);
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

TEST_P(disk_io_conformance, writes_that_are_on_their_way_have_so_many_bytes_and_not_more) {
  constexpr std::uint32_t each = writing_bytes_max / 4;
  const auto file = created("a", 0);
  const block_memory memory(each + block);
  const auto write = [&](std::uint32_t i, std::uint32_t bytes) {
    return disk_io_driver::request(kind::write, file, i * each, memory.part(0, bytes));
  };
  for (std::uint32_t i = 0; i < 3; ++i)
    ASSERT_TRUE(io->submit(write(i, each)));
  auto headed = write(3, each);
  headed.head = memory.data() + each;
  EXPECT_FALSE(io->submit(headed));
  EXPECT_EQ(io->in_flight(), 3u);
  ASSERT_TRUE(io->submit(write(3, each)));
  EXPECT_FALSE(io->submit(write(4, block)));
  EXPECT_TRUE(io->submit(disk_io_driver::request(kind::sync, file, 0, {})));
  std::vector<disk_completion> done;
  for (driver->reap(done); done.size() < 5; driver->reap(done))
    io->wait(std::chrono::seconds(60));
  EXPECT_EQ(driver->one(headed), 0);
}

TEST_P(disk_io_conformance, one_write_may_have_more_bytes_by_itself_and_reads_have_any) {
  const auto file = created("a", 2 * writing_bytes_max);
  const block_memory memory(writing_bytes_max + block);
  const auto large = disk_io_driver::request(kind::write, file, 0, memory.all());
  ASSERT_TRUE(io->submit(large));
  EXPECT_FALSE(io->submit(disk_io_driver::request(kind::write, file, 0, memory.part(0, block))));
  std::vector<disk_completion> done;
  for (driver->reap(done); done.empty(); driver->reap(done))
    io->wait(std::chrono::seconds(60));
  EXPECT_EQ(done.front().error, 0);
  const auto read = disk_io_driver::request(kind::read, file, 0, memory.all());
  EXPECT_TRUE(io->submit(read));
  EXPECT_TRUE(io->submit(read));
  for (driver->reap(done); done.size() < 3; driver->reap(done))
    io->wait(std::chrono::seconds(60));
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

TEST_P(disk_io_conformance, as_many_syncs_as_transfers_are_on_their_way) {
  const auto file = created("a", block);
  const auto folder = io->open_folder("");
  ASSERT_TRUE(folder);
  const block_memory memory(block * depth);
  for (std::uint32_t i = 0; i < depth; ++i)
    ASSERT_TRUE(
        io->submit(disk_io_driver::request(kind::read, file, 0, memory.part(i * block, block), i)));
  const auto of_file = disk_io_driver::request(kind::sync, file, 0, {}, 100);
  const auto of_folder = disk_io_driver::request(kind::sync_folder, *folder, 0, {}, 100);
  for (std::uint32_t i = 0; i < depth; ++i)
    ASSERT_TRUE(io->submit(i % 2 == 0 ? of_file : of_folder)) << i;
  EXPECT_FALSE(io->submit(of_file));
  EXPECT_FALSE(io->submit(of_folder));
  EXPECT_EQ(io->in_flight(), 2 * depth);
  std::vector<disk_completion> done;
  for (driver->reap(done); done.size() < std::size_t{2} * depth; driver->reap(done))
    io->wait(std::chrono::seconds(60));
  EXPECT_EQ(std::count_if(done.begin(), done.end(),
                          [](const auto& one) { return one.tag == 100 && one.error == 0; }),
            depth);
  EXPECT_EQ(driver->one(of_folder), 0);
}

TEST_P(disk_io_conformance, a_folder_takes_no_transfers_and_a_file_no_sync_of_a_folder) {
  const auto file = created("a", block);
  const auto folder = io->open_folder("");
  ASSERT_TRUE(folder);
  const block_memory memory(block);
  for (const auto what : {kind::read, kind::write, kind::sync})
    EXPECT_DEATH(io->submit(disk_io_driver::request(what, *folder, 0, memory.all())), "");
  EXPECT_DEATH(io->submit(disk_io_driver::request(kind::sync_folder, file, 0, {})), "");
  io->close(*folder);
  EXPECT_DEATH(io->submit(disk_io_driver::request(kind::sync_folder, *folder, 0, {})), "");
}

TEST_P(disk_io_conformance, files_that_are_open_together_are_kept_apart) {
  constexpr std::uint32_t count = 40;
  std::vector<disk_file> files;
  const block_memory memory(count * block);
  memory.fill(9);
  std::vector<disk_request> writes;
  for (std::uint32_t i = 0; i < count; ++i) {
    files.push_back(created("f" + std::to_string(i), block));
    if (i % 3 == 2) { // Closes and opens some files again, so that handles are used a second time.
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
  bad.head = memory.data() + block; // Invalid, because a read must have no head.
  EXPECT_DEATH(io->submit(bad), "");
  bad.what = kind::write;
  bad.head += 512;
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
  constexpr std::uint32_t each = 64 * block;
  const block_memory memory(depth * each);
  std::memset(memory.data(), 7, memory.size());
  const auto a = created("a", depth * each);
  ASSERT_EQ(driver->write(a, 0, memory.all()), 0);
  const block_memory nines(memory.size());
  std::memset(nines.data(), 9, nines.size());
  for (std::uint32_t i = 0; i < depth; ++i)
    ASSERT_TRUE(io->submit(
        disk_io_driver::request(kind::read, a, i * each, memory.part(i * each, each), i)));
  io->wait(std::chrono::nanoseconds(0)); // Hands the submitted requests to the kernel.
  io.reset();
  std::memcpy(memory.data(), nines.data(), nines.size());
  const auto other = rig->open(depth);
  const auto file = other->create("b", block);
  ASSERT_TRUE(file);
  // The write and the sync below take time, in which a read that outlived its disk_io would
  // overwrite `memory`.
  const block_memory some(block);
  EXPECT_EQ(disk_io_driver(*other).write(*file, 0, some.all()), 0);
  EXPECT_EQ(disk_io_driver(*other).sync(*file), 0);
  EXPECT_TRUE(same(memory.all(), nines.all()));
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
  // The written parts lie within registered memory, across its begin, across its end, between two
  // registered parts, and elsewhere.
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

} // namespace peercache::storage
