#include "storage/disk/offset/offset_index.hpp"
#include "storage/disk/page_check.hpp"
#include "tests/storage/device/device_folder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <random>

namespace peercache::storage {
namespace {

constexpr record_owner owner{11, 22};

page_key key_of(std::uint64_t number) {
  std::mt19937_64 random(number);
  page_key key;
  for (auto& byte : key.bytes)
    byte = static_cast<std::uint8_t>(random());
  return key;
}

record_header record(std::uint64_t number, std::uint64_t sequence) {
  auto header =
      header_of({key_of(number), generation{2}, number, 3, 4096}, owner, sequence, 8192 * sequence);
  seal(header);
  return header;
}

using sequences = std::map<page_key, std::uint64_t>;

/// What `load` finds in an index: its records, and the next sequence, which is nothing when records
/// may be missing.
struct found {
  std::optional<std::uint64_t> next_sequence;
  sequences records;
  bool failed = false;
};

found load(offset_index& index, std::uint32_t threads = 2) {
  found now;
  std::mutex mutex;
  const auto next =
      index.load(threads, [&](std::uint32_t, const page_key& key, std::span<const std::byte> raw) {
        record_header header;
        EXPECT_EQ(read_record(raw, owner, header), record_fault::none);
        EXPECT_EQ(header.key, key);
        const std::lock_guard lock(mutex);
        EXPECT_TRUE(now.records.emplace(key, header.sequence).second);
      });
  now.failed = !next;
  if (next)
    now.next_sequence = *next;
  return now;
}

std::unique_ptr<offset_index> open(const device_folder& folder) {
  auto index = open_rocks_index(folder.path("index"));
  EXPECT_TRUE(index) << (index ? "" : index.error().message);
  return index ? std::move(*index) : nullptr;
}

/// Commits a batch as a store does: waits until the index wakes the owner, and returns the result.
result<void> commit(offset_index& index, offset_index_batch batch) {
  std::mutex mutex;
  std::condition_variable woken;
  bool wake = false;
  index.commit(std::move(batch), [&] {
    const std::lock_guard lock(mutex);
    wake = true;
    woken.notify_one();
  });
  std::unique_lock lock(mutex);
  woken.wait(lock, [&] { return wake; });
  lock.unlock();
  auto ended = index.committed();
  EXPECT_TRUE(ended);
  EXPECT_FALSE(index.committed());
  return ended ? *ended : result<void>(errc::io_failed, "no answer");
}

TEST(rocks_index, a_new_one_says_that_records_may_be_missing) {
  const device_folder folder;
  auto index = open(folder);
  const auto now = load(*index);
  EXPECT_FALSE(now.failed);
  EXPECT_FALSE(now.next_sequence);
  EXPECT_TRUE(now.records.empty());
}

TEST(rocks_index, finds_what_was_committed_and_not_what_was_removed) {
  const device_folder folder;
  sequences model;
  std::uint64_t sequence = 0;
  for (int start = 0; start < 3; ++start) {
    auto index = open(folder);
    for (int round = 0; round < 20; ++round) {
      offset_index_batch batch;
      for (int i = 0; i < 10 && !model.empty() && round % 3 == 2; ++i) {
        batch.removed.push_back(model.begin()->first);
        model.erase(model.begin());
      }
      for (int i = 0; i < 30; ++i) {
        batch.put.push_back(record(sequence % 700, sequence + 1));
        model[key_of(sequence % 700)] = sequence + 1;
        ++sequence;
      }
      batch.next_sequence = sequence + 1;
      ASSERT_TRUE(round % 2 == 0 ? index->commit_now(batch) : commit(*index, batch));
    }
    index = nullptr;
    index = open(folder);
    for (const std::uint32_t threads : {1u, 2u, 7u}) {
      const auto now = load(*index, threads);
      EXPECT_EQ(now.next_sequence, sequence + 1);
      EXPECT_EQ(now.records, model);
    }
  }
}

TEST(rocks_index, a_key_removed_and_put_in_one_batch_is_there) {
  const device_folder folder;
  auto index = open(folder);
  ASSERT_TRUE(index->commit_now({.removed = {}, .put = {record(1, 1)}, .next_sequence = 2}));
  ASSERT_TRUE(commit(*index, {{key_of(1)}, {record(1, 2)}, 3}));
  EXPECT_EQ(load(*index).records, (sequences{{key_of(1), 2}}));
}

TEST(rocks_index, cleared_it_is_new) {
  const device_folder folder;
  auto index = open(folder);
  ASSERT_TRUE(commit(*index, {{}, {record(1, 1)}, 2}));
  ASSERT_TRUE(index->clear());
  EXPECT_TRUE(load(*index).records.empty());
  EXPECT_FALSE(load(*index).next_sequence);
  ASSERT_TRUE(commit(*index, {{}, {record(2, 2)}, 3}));
  EXPECT_EQ(load(*index).next_sequence, 3u);
}

TEST(rocks_index, records_put_before_it_was_complete_do_not_make_it_complete) {
  const device_folder folder;
  ASSERT_TRUE(open(folder)->commit_now({{}, {record(1, 1)}, 0}));
  EXPECT_FALSE(load(*open(folder)).next_sequence);
}

TEST(rocks_index, a_folder_has_one_process) {
  const device_folder folder;
  const auto first = open(folder);
  const auto second = open_rocks_index(folder.path("index"));
  EXPECT_FALSE(second);
  ASSERT_TRUE(first->commit_now({{}, {record(1, 1)}, 2}));
  EXPECT_EQ(load(*first).records.size(), 1u);
}

/// Flips a bit in one file of RocksDB after the other. Each time either the index is complete, or
/// `load` fails, or opening discards the index. An index must never have a record that was not
/// committed; the `load` of this file checks that.
TEST(rocks_index, flipped_bits_are_told) {
  std::mt19937_64 random(1);
  sequences model;
  std::uint64_t complete = 0;
  std::uint64_t lost = 0;
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE(round);
    const device_folder folder;
    {
      auto index = open(folder);
      for (std::uint64_t i = 1; i <= 200;) {
        offset_index_batch batch;
        for (const auto end = i + 20; i < end; ++i) {
          batch.put.push_back(record(i, i));
          model[key_of(i)] = i;
        }
        batch.next_sequence = i;
        ASSERT_TRUE(index->commit_now(batch));
        if (i == 101)
          index = nullptr;
        if (!index) // RocksDB moves records from its log to a table file when it opens.
          index = open(folder);
      }
    }
    std::vector<std::filesystem::path> files;
    for (const auto& file : std::filesystem::directory_iterator(folder.path("index")))
      if (file.is_regular_file() && file.file_size() != 0)
        files.push_back(file.path());
    std::sort(files.begin(), files.end());
    const auto& path = files[static_cast<std::size_t>(round) % files.size()];
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    const auto at = static_cast<std::streamoff>(random() % std::filesystem::file_size(path));
    file.seekg(at);
    const auto byte = static_cast<char>(file.get() ^ (1 << random() % 8));
    file.seekp(at);
    file.put(byte);
    file.close();
    auto index = open(folder);
    ASSERT_NE(index, nullptr);
    const auto now = load(*index);
    if (!now.failed && now.next_sequence) {
      ++complete;
      EXPECT_EQ(now.records, model);
    } else {
      ++lost;
      ASSERT_TRUE(index->clear());
      EXPECT_TRUE(load(*index).records.empty());
    }
  }
  EXPECT_GT(complete, 0u);
  EXPECT_GT(lost, 0u);
}

} // namespace
} // namespace peercache::storage
