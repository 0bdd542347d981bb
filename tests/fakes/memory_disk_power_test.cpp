// Tests of what a loss of power leaves of a `memory_disk_io`.

#include "tests/fakes/memory_disk_io.hpp"
#include "tests/storage/disk/io/disk_io_rig.hpp"

#include <algorithm>
#include <cerrno>
#include <functional>
#include <set>

namespace peercache::storage::memory_disk_power_test {
namespace {

using kind = disk_request::kind;
constexpr std::uint32_t block = disk_block_bytes;
constexpr std::uint32_t sector = 512;
constexpr std::uint64_t seeds = 300;

class memory_disk_power : public testing::Test {
protected:
  void write(disk_file file, std::uint64_t at, std::uint32_t blocks, int value) {
    std::memset(memory.data(), value, blocks * block);
    ASSERT_EQ(driver.write(file, at * block, memory.part(0, blocks * block)), 0);
  }

  disk_file synced(const std::string& name, std::uint32_t blocks, int value) {
    const auto file = *io.create(name, blocks * block);
    write(file, 0, blocks, value);
    EXPECT_EQ(driver.sync(file), 0);
    EXPECT_TRUE(io.sync_folder(""));
    return file;
  }

  static bool all_are(std::span<const std::byte> bytes, int value) {
    return std::all_of(bytes.begin(), bytes.end(),
                       [&](std::byte one) { return one == static_cast<std::byte>(value); });
  }

  /// Returns all contents that losses of power may leave, each as the text that `described` returns
  /// for it.
  std::set<std::string>
  outcomes(const std::function<std::string(const memory_disk_io&)>& described) const {
    std::set<std::string> seen;
    for (std::uint64_t seed = 0; seed < seeds; ++seed)
      seen.insert(described(*io.after_power_cut(seed)));
    return seen;
  }

  static std::string names(const memory_disk_io& left) {
    std::string text;
    for (const auto& name : left.files())
      text += name + " ";
    return text;
  }

  memory_disk_io io;
  disk_io_driver driver{io};
  block_memory memory{16 * block};
};

using words = std::set<std::string>;

TEST_F(memory_disk_power, what_was_synced_with_its_folder_is_there) {
  synced("a", 4, 7);
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const auto left = io.after_power_cut(seed);
    EXPECT_EQ(names(*left), "a ");
    EXPECT_TRUE(all_are(left->contents("a"), 7));
    EXPECT_EQ(left->contents("a").size(), 4 * block);
  }
}

TEST_F(memory_disk_power, an_unsynced_write_is_there_or_not_or_in_sectors) {
  const auto file = synced("a", 4, 7);
  write(file, 1, 2, 9);
  int none = 0;
  int whole = 0;
  int torn_in_a_block = 0;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const auto bytes = io.after_power_cut(seed)->contents("a");
    ASSERT_TRUE(all_are(std::span(bytes).first(block), 7));
    ASSERT_TRUE(all_are(std::span(bytes).last(block), 7));
    std::uint32_t nines = 0;
    for (std::uint32_t at = block; at < 3 * block; at += sector) {
      const auto one = std::span(bytes).subspan(at, sector);
      ASSERT_TRUE(all_are(one, 7) || all_are(one, 9)) << "a sector is never torn";
      nines += all_are(one, 9);
    }
    none += nines == 0;
    whole += nines == 2 * block / sector;
    torn_in_a_block += nines % (block / sector) != 0;
  }
  EXPECT_GT(none, 20);
  EXPECT_GT(whole, 20);
  EXPECT_GT(torn_in_a_block, 20);
  EXPECT_TRUE(all_are(io.after_power_cut(1, survivors::none)->contents("a"), 7));
  EXPECT_EQ(io.after_power_cut(1, survivors::all)->contents("a"), io.contents("a"));
}

TEST_F(memory_disk_power, unsynced_writes_survive_in_any_order_but_no_older_one_over_a_newer) {
  const auto file = synced("a", 3, 0);
  write(file, 0, 1, 1);
  write(file, 1, 1, 2);
  write(file, 0, 1, 3);
  std::set<std::pair<int, int>> seen;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const auto bytes = io.after_power_cut(seed)->contents("a");
    seen.emplace(static_cast<int>(bytes[0]), static_cast<int>(bytes[block]));
  }
  EXPECT_EQ(seen.size(), 6u) << "0, 1 or 3 there, 0 or 2 here";
}

TEST_F(memory_disk_power, a_sync_covers_only_writes_that_had_completed_when_it_was_submitted) {
  const auto file = synced("a", 2, 0);
  memory_disk_options in_order;
  in_order.reorder = false;
  memory_disk_io other(in_order);
  disk_io_driver its_driver(other);
  const auto a = *other.create("a", 2 * block);
  ASSERT_EQ(its_driver.sync(a), 0);
  ASSERT_TRUE(other.sync_folder(""));
  std::memset(memory.data(), 5, block);
  its_driver.all({disk_io_driver::request(kind::write, a, 0, memory.part(0, block)),
                  disk_io_driver::request(kind::sync, a, 0, {})});
  EXPECT_TRUE(all_are(other.after_power_cut(1, survivors::none)->contents("a"), 0))
      << "the write completed before the sync, but after it was submitted";
  ASSERT_EQ(its_driver.sync(a), 0);
  EXPECT_EQ(other.after_power_cut(1, survivors::none)->contents("a")[0], std::byte{5});
  io.close(file);
}

TEST_F(memory_disk_power, what_a_failed_sync_was_to_cover_no_later_one_saves) {
  const auto file = synced("a", 2, 0);
  write(file, 0, 1, 5);
  io.fail_once(disk_operation::sync, 0, EIO);
  ASSERT_EQ(driver.sync(file), EIO);
  ASSERT_EQ(driver.sync(file), 0);
  EXPECT_TRUE(all_are(io.after_power_cut(1, survivors::none)->contents("a"), 0));
  write(file, 0, 1, 6);
  ASSERT_EQ(driver.sync(file), 0);
  for (std::uint64_t seed = 0; seed < seeds; ++seed)
    ASSERT_EQ(io.after_power_cut(seed)->contents("a")[0], std::byte{6});
}

TEST_F(memory_disk_power, a_write_on_its_way_may_be_there) {
  const auto file = synced("a", 2, 0);
  std::memset(memory.data(), 5, block);
  ASSERT_TRUE(io.submit(disk_io_driver::request(kind::write, file, 0, memory.part(0, block))));
  const auto seen = outcomes([&](const memory_disk_io& left) {
    const auto bytes = left.contents("a");
    return all_are(std::span(bytes).first(block), 5)   ? "whole"
           : all_are(std::span(bytes).first(block), 0) ? "none"
                                                       : "torn";
  });
  EXPECT_EQ(seen, (words{"whole", "none", "torn"}));
  std::vector<disk_completion> done;
  driver.reap(done);
}

TEST_F(memory_disk_power, a_new_file_may_be_gone_or_empty_until_folder_and_file_are_synced) {
  const auto file = *io.create("a", block);
  const auto described = [](const memory_disk_io& left) {
    return left.files().empty() ? "gone" : std::to_string(left.contents("a").size());
  };
  EXPECT_EQ(outcomes(described), (words{"gone", "0", "4096"}));
  ASSERT_TRUE(io.sync_folder(""));
  EXPECT_EQ(outcomes(described), (words{"0", "4096"}));
  ASSERT_EQ(driver.sync(file), 0);
  EXPECT_EQ(outcomes(described), (words{"4096"}));
}

TEST_F(memory_disk_power, a_renamed_file_has_one_of_its_names) {
  synced("new", 1, 2);
  synced("a", 1, 1);
  ASSERT_TRUE(io.rename("new", "a"));
  const auto described = [](const memory_disk_io& left) {
    return names(left) + std::to_string(static_cast<int>(left.contents("a")[0]));
  };
  EXPECT_EQ(outcomes(described), (words{"a new 1", "a 2"}));
  ASSERT_TRUE(io.sync_folder(""));
  EXPECT_EQ(outcomes(described), (words{"a 2"}));
}

TEST_F(memory_disk_power, names_are_lost_one_by_one_and_a_removed_file_may_come_back) {
  synced("a", 1, 1);
  ASSERT_TRUE(io.remove("a"));
  ASSERT_TRUE(io.create("b", 0));
  ASSERT_TRUE(io.create("c", 0));
  EXPECT_EQ(outcomes(names), (words{"", "a ", "b ", "c ", "a b ", "a c ", "b c ", "a b c "}));
  ASSERT_TRUE(io.sync_folder(""));
  EXPECT_EQ(outcomes(names), (words{"b c "}));
}

TEST_F(memory_disk_power, a_folders_entries_are_synced_by_it_alone) {
  ASSERT_TRUE(io.make_folder("x"));
  ASSERT_TRUE(io.create("x/a", 0));
  ASSERT_TRUE(io.create("b", 0));
  ASSERT_TRUE(io.sync_folder("x"));
  EXPECT_EQ(outcomes(names), (words{"", "b ", "x/a ", "b x/a "})) << "x itself may be gone";
  ASSERT_TRUE(io.sync_folder(""));
  EXPECT_EQ(outcomes(names), (words{"b x/a "}));
  ASSERT_TRUE(io.create("x/c", 0));
  ASSERT_TRUE(io.sync_folder(""));
  EXPECT_EQ(outcomes(names), (words{"b x/a ", "b x/a x/c "}));
}

TEST_F(memory_disk_power,
       a_folders_sync_covers_only_entries_that_were_there_when_it_was_submitted) {
  const auto folder = *io.open_folder("");
  ASSERT_TRUE(io.create("a", 0));
  ASSERT_TRUE(io.submit(disk_io_driver::request(disk_request::kind::sync_folder, folder, 0, {})));
  ASSERT_TRUE(io.create("b", 0));
  EXPECT_EQ(outcomes(names), (words{"", "a ", "b ", "a b "}));
  std::vector<disk_completion> done;
  driver.reap(done);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(outcomes(names), (words{"a ", "a b "}));
  ASSERT_EQ(driver.sync_folder(folder), 0);
  EXPECT_EQ(outcomes(names), (words{"a b "}));
}

TEST_F(memory_disk_power, a_truncation_happened_or_not_until_the_file_is_synced) {
  const auto file = synced("a", 4, 3);
  ASSERT_TRUE(io.truncate(file, block));
  const auto described = [](const memory_disk_io& left) {
    return std::to_string(left.contents("a").size() / block);
  };
  EXPECT_EQ(outcomes(described), (words{"1", "4"}));
  ASSERT_TRUE(io.sync_folder(""));
  EXPECT_EQ(outcomes(described), (words{"1", "4"}));
  ASSERT_EQ(driver.sync(file), 0);
  EXPECT_EQ(outcomes(described), (words{"1"}));
}

TEST_F(memory_disk_power, the_disk_that_is_left_is_durable_and_works) {
  const auto file = synced("a", 2, 1);
  write(file, 0, 2, 2);
  const auto left = io.after_power_cut(5);
  const auto bytes = left->contents("a");
  EXPECT_EQ(left->after_power_cut(9)->contents("a"), bytes);
  disk_io_driver its_driver(*left);
  const auto again = *left->open("a");
  EXPECT_EQ(its_driver.write(again, 0, memory.part(0, block)), 0);
  EXPECT_EQ(its_driver.sync(again), 0);
  EXPECT_EQ(left->operations(), 2u);
  EXPECT_EQ(left->space()->free_bytes, left->space()->total_bytes - 2 * block);
}

/// Writes, syncs and renames a file, then a second file. Returns how many of these steps succeeded.
int scenario(memory_disk_io& io) {
  disk_io_driver driver(io);
  const block_memory memory(block);
  int steps = 0;
  for (const std::string name : {"a", "b"}) {
    std::memset(memory.data(), name[0], block);
    const auto file = io.create(name + ".new", block);
    steps += static_cast<bool>(file);
    if (!file)
      continue;
    steps += driver.write(*file, 0, memory.all()) == 0;
    steps += driver.sync(*file) == 0;
    steps += static_cast<bool>(io.rename(name + ".new", name));
    steps += static_cast<bool>(io.sync_folder(""));
  }
  return steps;
}

TEST(memory_disk_stop, at_every_operation_leaves_what_had_been_made_durable) {
  memory_disk_io whole;
  ASSERT_EQ(scenario(whole), 10);
  ASSERT_EQ(whole.operations(), 10u);
  for (std::uint64_t at = 0; at <= 10; ++at) {
    memory_disk_io io;
    io.stop_at(at);
    EXPECT_EQ(scenario(io), static_cast<int>(at));
    EXPECT_EQ(io.stopped(), at < 10);
    EXPECT_EQ(io.operations(), at);
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      const auto left = io.after_power_cut(seed);
      const auto names = left->files();
      for (const std::string name : {"a", "b"}) {
        const bool there = std::count(names.begin(), names.end(), name) != 0;
        ASSERT_TRUE(there || at < (name == "a" ? 5u : 10u));
        if (there) {
          const auto bytes = left->contents(name);
          ASSERT_TRUE(bytes.size() == block && bytes[0] == static_cast<std::byte>(name[0]) &&
                      bytes[block - 1] == bytes[0]);
        }
      }
    }
  }
}

TEST(memory_disk_stop, nothing_works_after_it) {
  memory_disk_io io;
  disk_io_driver driver(io);
  const block_memory memory(block);
  const auto file = *io.create("a", block);
  const auto write = disk_io_driver::request(kind::write, file, 0, memory.all());
  ASSERT_TRUE(io.submit(write));
  io.stop_at(io.operations());
  EXPECT_FALSE(io.create("b", block));
  EXPECT_FALSE(io.read_now("a", 0, memory.all()));
  EXPECT_FALSE(io.list(""));
  EXPECT_EQ(driver.one(write), EIO);
  EXPECT_EQ(driver.sync(file), EIO);
  EXPECT_EQ(driver.read(file, 0, memory.all()), EIO);
}

} // namespace
} // namespace peercache::storage::memory_disk_power_test
