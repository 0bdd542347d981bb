// A node whose disk fails, stalls or is full: memory goes on, and the disk comes back by itself.

#include "disk_node.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace peercache::real {
namespace {

using environment = std::vector<std::pair<std::string, std::string>>;

clock::duration quantile(std::vector<clock::duration> took, double share) {
  const auto at = static_cast<std::ptrdiff_t>(share * static_cast<double>(took.size() - 1));
  std::nth_element(took.begin(), took.begin() + at, took.end());
  return took[static_cast<std::size_t>(at)];
}

/// Resident memory of a process that is its own, without what it shares, in bytes.
std::uint64_t own_memory(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/statm");
  std::uint64_t total = 0, resident = 0, shared = 0;
  file >> total >> resident >> shared;
  return (resident - shared) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

const auto all_stores = testing::Values("bucket", "file_per_key", "offset");

class failing_disk : public testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(failing_disk, costs_no_set_and_no_wrong_byte_and_comes_back_by_itself) {
  const auto& [store, percent] = GetParam();
  disk_node::options options;
  options.store = store;
  options.environment = environment{{"PEERCACHE_TEST_DISK_ERROR_PERCENT", std::to_string(percent)},
                                    {"PEERCACHE_TEST_DISK_FAULTS_FOR_MS", "3000"}};
  disk_node node(options);
  const auto until = clock::now() + std::chrono::milliseconds(3000);
  std::uint32_t next = 0;
  while (clock::now() < until) {
    ASSERT_EQ(node.put(next), page_status::stored);
    const auto old = node.get(next / 2, milliseconds(300));
    EXPECT_TRUE(old.result.status != page_status::hit || old.wrong_bytes == 0);
    ASSERT_TRUE(node.client().flush());
    const auto fresh = node.get(next);
    EXPECT_EQ(fresh.result.status, page_status::hit) << "it is in memory";
    ++next;
  }
  ASSERT_TRUE(node.alive());
  if (percent == 100) {
    EXPECT_GE(node.status()->disk.breaker_opened, 1u);
  }
  const auto written = node.status()->disk.writes;
  EXPECT_TRUE(within(milliseconds(20'000), [&] {
    node.put(next++);
    const auto now = node.status();
    return now && now->disk.writes > written + 10 && now->disk.breaker == "closed";
  }));
}

INSTANTIATE_TEST_SUITE_P(with, failing_disk,
                         testing::Combine(all_stores, testing::Values(1, 20, 100)),
                         [](const auto& info) {
                           return std::get<0>(info.param) + "_and_percent_" +
                                  std::to_string(std::get<1>(info.param));
                         });

/// Puts a hundred new pages into both nodes and reads them from memory, one here and one there, so
/// that what else this machine does slows both: the 99th percentile of the reads of `slow` to that
/// of `usual`.
double p99_ratio(disk_node& slow, disk_node& usual, std::uint32_t first) {
  disk_node* const nodes[] = {&slow, &usual};
  for (auto* node : nodes) {
    for (std::uint32_t id = first; id < first + 100; ++id)
      EXPECT_EQ(node->put(id), page_status::stored);
    EXPECT_TRUE(node->client().flush());
  }
  std::vector<clock::duration> took[2];
  for (int again = 0; again < 20; ++again)
    for (std::uint32_t id = first; id < first + 100; ++id)
      for (std::size_t i = 0; i < 2; ++i) {
        const auto read = nodes[i]->get(id);
        EXPECT_EQ(read.result.status, page_status::hit);
        if (again != 0) // Where the pages are is known from then on.
          took[i].push_back(read.took);
      }
  const auto p99 = [](auto& all) {
    return static_cast<double>(quantile(std::move(all), 0.99).count());
  };
  return p99(took[0]) / p99(took[1]);
}

class stalled_disk : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(with, stalled_disk, all_stores,
                         [](const auto& info) { return info.param; });

TEST_P(stalled_disk, leaves_hits_in_memory_alone_and_promotes_miss_in_time) {
  constexpr std::uint64_t queue_bytes = 2u << 20;
  disk_node::options options;
  options.store = GetParam();
  options.flags = {"--disk-queue-size", std::to_string(queue_bytes)};
  disk_node healthy(options);
  options.environment = environment{{"PEERCACHE_TEST_DISK_STALL_MS", "500"}};
  disk_node stalled(options);
  const auto before = own_memory(stalled.pid());
  std::vector<double> slower;
  for (std::uint32_t round = 0; round < 9; ++round) {
    slower.push_back(p99_ratio(stalled, healthy, round * 100));
    EXPECT_LE(stalled.status()->disk.queue_bytes, queue_bytes);
  }
  std::nth_element(slower.begin(), slower.begin() + 4, slower.end());
  EXPECT_LE(slower[4], 1.2) << "p99, stalled to healthy";
  EXPECT_LT(own_memory(stalled.pid()), before + queue_bytes + (16u << 20));
  ASSERT_TRUE(within(milliseconds(10'000), [&] { return stalled.status()->disk.pages > 0; }));
  constexpr milliseconds deadline(300);
  int missed = 0;
  for (std::uint32_t id = 0; id < 20; ++id) {
    const auto read = stalled.get(id, deadline);
    EXPECT_LE(read.took, deadline + milliseconds(50));
    EXPECT_TRUE(read.result.status != page_status::hit || read.wrong_bytes == 0);
    missed += read.result.status != page_status::hit;
  }
  EXPECT_GT(missed, 0) << "the oldest pages left memory, and the disk is slower than the deadline";
}

/// A small ext4 of its own, where this machine allows that.
class small_disk : public testing::TestWithParam<std::string> {
protected:
  void SetUp() override {
    auto folder = cli::run_folder::make("peercache-full");
    ASSERT_TRUE(folder);
    folder_.emplace(std::move(*folder));
    image_ = (folder_->path() / "image").string();
    mounted_ = (folder_->path() / "disk").string();
    std::filesystem::create_directory(mounted_);
    const auto command = "truncate -s 96M " + image_ + " && mkfs.ext4 -q -m 0 " + image_ +
                         " && mount -o loop " + image_ + " " + mounted_;
    if (std::system((command + " 2>/dev/null").c_str()) != 0)
      GTEST_SKIP() << "no file system on a loop device can be mounted here";
    is_mounted_ = true;
  }
  void TearDown() override {
    if (is_mounted_) {
      EXPECT_EQ(std::system(("umount " + mounted_).c_str()), 0);
    }
  }

  std::optional<cli::run_folder> folder_;
  std::string image_;
  std::string mounted_;
  bool is_mounted_ = false;
};

INSTANTIATE_TEST_SUITE_P(with, small_disk, all_stores, [](const auto& info) { return info.param; });

TEST_P(small_disk, when_full_is_read_only_within_a_second_and_comes_back_with_room) {
  const auto filler = mounted_ + "/filler";
  {
    disk_node::options options;
    options.store = GetParam();
    // The store `offset` takes its room when it starts: what others fill does not reach it.
    const bool takes_its_room = options.store == "offset";
    options.disk_bytes = takes_its_room ? 48u << 20 : 256u << 20;
    options.disk_path = mounted_;
    disk_node node(options);
    std::uint32_t next = 0;
    for (; next < 64; ++next)
      ASSERT_EQ(node.put(next), page_status::stored);
    ASSERT_TRUE(node.settled());
    const auto command = "dd if=/dev/zero of=" + filler + " bs=64k status=none 2>/dev/null; true";
    ASSERT_EQ(std::system(command.c_str()), 0);
    const auto full_at = clock::now();
    bool read_only = false;
    std::optional<clock::time_point> failed_at; ///< The first write that found no room.
    while (!read_only && clock::now() - full_at < std::chrono::seconds(takes_its_room ? 2 : 20)) {
      for (int i = 0; i < 16; ++i)
        ASSERT_EQ(node.put(next++), page_status::stored) << "memory goes on";
      const auto now = node.status();
      read_only = now->disk.read_only;
      if (!failed_at && now->disk.write_errors != 0)
        failed_at = clock::now();
      if (failed_at) {
        ASSERT_TRUE(read_only || clock::now() - *failed_at < std::chrono::seconds(1));
      }
    }
    EXPECT_EQ(read_only, !takes_its_room);
    EXPECT_TRUE(node.alive());
    const auto written = node.status()->disk.writes;
    std::filesystem::remove(filler);
    EXPECT_TRUE(within(milliseconds(10'000), [&] {
      node.put(next++);
      const auto now = node.status();
      return now && !now->disk.read_only && now->disk.writes > written;
    }));
    for (std::uint32_t id = 0; id < next; ++id)
      if (const auto read = node.get(id); read.result.status == page_status::hit) {
        ASSERT_EQ(read.wrong_bytes, 0u);
      }
  }
}

} // namespace
} // namespace peercache::real
