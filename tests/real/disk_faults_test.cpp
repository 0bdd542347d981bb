// Tests of a node whose disk fails, stalls or is full: pages in memory are still served, and the
// node uses the disk again once it works.

#include "disk_node.hpp"

#include "storage/disk/io/disk_io.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string_view>
#include <unistd.h>

namespace peercache::real {

using metrics::metric;

namespace {

/// Returns how many pages the node has not written to disk for this reason.
std::uint64_t skips(disk_node& node, std::string_view reason) {
  return node.status()->samples.count(metric::disk_skips_total, {reason});
}

using environment = std::vector<std::pair<std::string, std::string>>;

clock::duration quantile(std::vector<clock::duration> took, double share) {
  const auto at = static_cast<std::ptrdiff_t>(share * static_cast<double>(took.size() - 1));
  std::nth_element(took.begin(), took.begin() + at, took.end());
  return took[static_cast<std::size_t>(at)];
}

/// Returns the resident memory of a process, without what it shares with others, in bytes.
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
    EXPECT_GE(node.status()->count(metric::disk_breaker_opened_total), 1u);
  }
  const auto written = node.status()->count(metric::disk_writes_total);
  EXPECT_TRUE(within(milliseconds(60'000), [&] {
    node.put(next++);
    const auto now = node.status();
    return now && now->count(metric::disk_writes_total) > written + 10 &&
           now->disk.breaker == "closed" && !now->is(metric::disk_breaker_open);
  }));
}

INSTANTIATE_TEST_SUITE_P(with, failing_disk,
                         testing::Combine(all_stores, testing::Values(1, 20, 100)),
                         [](const auto& info) {
                           return std::get<0>(info.param) + "_and_percent_" +
                                  std::to_string(std::get<1>(info.param));
                         });

class broken_disk : public testing::TestWithParam<std::string> {
protected:
  /// Puts pages and asks the node for its status until `says` accepts the status. Returns false
  /// when that takes more than a second, not counting time in which this process stood still.
  bool within_a_second(disk_node& node, std::uint32_t& next,
                       const std::function<bool(const client::node_status&)>& says) const {
    const auto begin = clock::now();
    for (;;) {
      for (int i = 0; i < 4; ++i)
        EXPECT_EQ(node.put(next++), page_status::stored) << "memory goes on";
      const auto now = node.status();
      const auto took = clock::now() - begin;
      const bool late = took > std::chrono::seconds(1) &&
                        took - stalls_.stood_still(begin, begin + took) > std::chrono::seconds(1);
      if (!now || late || says(*now))
        return now && !late;
    }
  }

private:
  stress::stall_watch stalls_;
};
INSTANTIATE_TEST_SUITE_P(with, broken_disk, all_stores,
                         [](const auto& info) { return info.param; });

TEST_P(broken_disk, is_written_no_more_within_a_second_and_again_when_it_is_well) {
  disk_node::options options;
  options.store = GetParam();
  options.environment = environment{{"PEERCACHE_TEST_DISK_ERROR_PERCENT", "100"},
                                    {"PEERCACHE_TEST_DISK_FAULTS_FOR_MS", "3000"}};
  disk_node node(options);
  // Waits until the node's scan of the disk is over, so that the first operation that fails is the
  // write of a page.
  ASSERT_TRUE(node.settled());
  std::uint32_t next = 0;
  EXPECT_TRUE(within_a_second(node, next, [](const client::node_status& now) {
    return now.disk.breaker == "open" && now.is(metric::disk_breaker_open) &&
           now.samples.count(metric::disk_skips_total, {"breaker_open"}) > 0;
  })) << node.status()->samples.count(metric::disk_errors_total, {"write"});
  EXPECT_GT(node.status()->samples.count(metric::disk_errors_total, {"write"}), 0u);
  EXPECT_EQ(node.status()->count(metric::disk_writes_total), 0u);
  EXPECT_TRUE(within(milliseconds(60'000), [&] {
    node.put(next++);
    const auto now = node.status();
    return now && now->count(metric::disk_writes_total) > 10 && now->disk.breaker == "closed" &&
           !now->is(metric::disk_breaker_open);
  }));
  EXPECT_TRUE(within(milliseconds(60'000), [&] {
    return node.log().find("fails again and again") != std::string::npos &&
           node.log().find("Input/output error") != std::string::npos &&
           node.log().find("works again") != std::string::npos;
  })) << node.log();
}

/// Puts a hundred new pages into both nodes and reads them from memory, in turns, so that other
/// work of this machine slows both nodes alike. Returns the 99th percentile of the reads at `slow`,
/// divided by that at `usual`.
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
        // The first round is not measured, because the client learns the pages' locations in it.
        if (again != 0)
          took[i].push_back(read.took);
      }
  const auto p99 = [](auto& all) {
    return static_cast<double>(quantile(std::move(all), 0.99).count());
  };
  return p99(took[0]) / p99(took[1]);
}

/// Returns the median ratio of five rounds; their pages are numbered from `first` on.
double median_p99_ratio(disk_node& slow, disk_node& usual, std::uint32_t first) {
  std::array<double, 5> ratios{};
  for (auto& ratio : ratios) {
    ratio = p99_ratio(slow, usual, first);
    first += 100;
  }
  std::nth_element(ratios.begin(), ratios.begin() + 2, ratios.end());
  return ratios[2];
}

/// Returns how many pages the node has asked its disk for, whatever became of them.
std::uint64_t asked_of_disk(disk_node& node) {
  const auto now = node.status()->samples;
  auto asked = now.count(metric::disk_promotes_on_their_way);
  for (const auto* result : {"promoted", "missed", "refused"})
    asked += now.count(metric::disk_promotes_total, {result});
  return asked;
}

class stalled_disk : public testing::TestWithParam<std::string> {
protected:
  static constexpr std::uint64_t queue_bytes = 2u << 20;
  static constexpr std::uint32_t cold = 31; ///< Number of pages that are on disk before all others.

  disk_node::options wanted(bool stalls) const {
    disk_node::options options;
    options.store = GetParam();
    options.flags = {"--disk-queue-size", std::to_string(queue_bytes), "--pool-eviction", "lru"};
    if (stalls)
      options.environment = environment{{"PEERCACHE_TEST_DISK_STALL_MS", "500"}};
    return options;
  }

  /// Outcome of reading ten pages that are on disk only: how many reads missed, and how many
  /// returned late.
  struct cold_reads {
    int missed = 0;
    int late = 0;
  };
  cold_reads read_cold(disk_node& node, std::uint32_t first) const {
    constexpr milliseconds deadline(300);
    cold_reads seen;
    for (std::uint32_t id = first; id < first + 10; ++id) {
      const auto begin = clock::now();
      const auto read = node.get(id, deadline);
      EXPECT_TRUE(read.result.status != page_status::hit || read.wrong_bytes == 0);
      seen.missed += read.result.status != page_status::hit;
      const auto excess = read.took - deadline - milliseconds(50);
      seen.late +=
          excess > clock::duration(0) && excess > stalls_.stood_still(begin, begin + read.took);
    }
    return seen;
  }

private:
  stress::stall_watch stalls_;
};
INSTANTIATE_TEST_SUITE_P(with, stalled_disk, all_stores,
                         [](const auto& info) { return info.param; });

TEST_P(stalled_disk, leaves_hits_in_memory_alone) {
  disk_node healthy(wanted(false));
  disk_node stalled(wanted(true));
  const auto before = own_memory(stalled.pid());
  // Other work of this machine may slow one of the two nodes, so the best of three tries counts: a
  // slowdown by the stalled disk would show in each.
  double slower = 2;
  for (std::uint32_t attempt = 0; attempt < 3 && slower > 1.2; ++attempt) {
    slower = std::min(slower, median_p99_ratio(stalled, healthy, attempt * 500));
    EXPECT_LE(stalled.status()->count(metric::disk_queue_bytes), queue_bytes);
  }
  EXPECT_LE(slower, 1.2) << "p99, stalled to healthy";
  std::uint32_t next = 10'000;
  EXPECT_TRUE(within(milliseconds(60'000), [&] { // Puts pages until the disk's queue is full.
    for (int i = 0; i < 64; ++i)
      EXPECT_EQ(stalled.put(next++), page_status::stored);
    return skips(stalled, "queue_full") > 0;
  }));
  EXPECT_LE(stalled.status()->count(metric::disk_queue_bytes), queue_bytes);
  EXPECT_LT(own_memory(stalled.pid()), before + queue_bytes + (16u << 20));
}

TEST_P(stalled_disk, has_promotes_miss_in_time) {
  disk_node node(wanted(true));
  ASSERT_NO_FATAL_FAILURE(node.put_to_disk(0, cold));
  ASSERT_EQ(node.status()->count(metric::disk_records), cold);
  // Puts more pages than the pool holds, so that the cold pages leave memory.
  for (std::uint32_t id = 1000; id < 1600; ++id)
    ASSERT_EQ(node.put(id), page_status::stored);
  ASSERT_TRUE(node.client().flush());
  // Until the directory knows that a page is on disk, a miss says nothing about the disk. The
  // directory knows it once a read makes the node ask its disk.
  const auto asked = asked_of_disk(node);
  std::string seen_as;
  ASSERT_TRUE(within(milliseconds(30'000), [&] {
    seen_as = to_string(node.get(cold - 1, milliseconds(300)).result.status);
    return asked_of_disk(node) > asked;
  })) << seen_as;
  // Reads may be late because the machine slowed the node, so the best of three rounds counts. A
  // read that waited for the stalled disk would be late in each.
  int late = 1;
  for (std::uint32_t first = 0; first + 10 < cold && late != 0; first += 10) {
    const auto seen = read_cold(node, first);
    EXPECT_GT(seen.missed, 0) << "the disk is slower than the deadline";
    late = std::min(late, seen.late);
  }
  EXPECT_EQ(late, 0) << "the deadline and 50 ms";
  EXPECT_GT(asked_of_disk(node), asked + 1);
}

/// Tests on a small ext4 file system of their own; skipped where this machine does not allow
/// mounting one.
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
    // The store `offset` allocates its file's whole size at its start, so a file system that fills
    // up later does not stop it.
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
    const auto skipped_before = skips(node, "read_only");
    // Whether pages were skipped because the tier was read-only, if only for a moment.
    bool read_only = false;
    int tries = 0; // Rounds of puts since the first write that found no room.
    std::optional<clock::time_point> failed_at;
    const auto patience = std::chrono::seconds(takes_its_room ? 2 : 60);
    while (!read_only && clock::now() - full_at < patience) {
      for (int i = 0; i < 16; ++i)
        ASSERT_EQ(node.put(next++), page_status::stored) << "memory goes on";
      read_only = skips(node, "read_only") > skipped_before;
      if (!failed_at && node.status()->samples.count(metric::disk_errors_total, {"write"}) != 0)
        failed_at = clock::now();
      if (failed_at) {
        // On a machine that stood still for the second there were fewer than five tries: goes on.
        ASSERT_TRUE(read_only || ++tries < 5 ||
                    clock::now() - *failed_at < std::chrono::seconds(1));
      }
    }
    EXPECT_EQ(read_only, !takes_its_room);
    EXPECT_TRUE(node.alive());
    const auto written = node.status()->count(metric::disk_writes_total);
    std::filesystem::remove(filler);
    EXPECT_TRUE(within(milliseconds(60'000), [&] {
      node.put(next++);
      const auto now = node.status();
      return now && !now->is(metric::disk_read_only) &&
             now->count(metric::disk_writes_total) > written;
    }));
    EXPECT_TRUE(takes_its_room || within(milliseconds(60'000),
                                         [&] {
                                           return node.log().find("is full before the tier is") !=
                                                      std::string::npos &&
                                                  node.log().find("has room again") !=
                                                      std::string::npos;
                                         }))
        << node.log();
    for (std::uint32_t id = 0; id < next; ++id)
      if (const auto read = node.get(id); read.result.status == page_status::hit) {
        ASSERT_EQ(read.wrong_bytes, 0u);
      }
  }
}

TEST(read_only_file_system, is_still_read) {
  auto folder = cli::run_folder::make("peercache-ro");
  ASSERT_TRUE(folder);
  const auto path = folder->path().string();
  if (std::system(("mount --bind " + path + " " + path + " 2>/dev/null").c_str()) != 0)
    GTEST_SKIP() << "no folder can be mounted here";
  std::ofstream(path + "/page") << "written before";
  {
    auto disk = storage::open_disk(path, 8);
    EXPECT_TRUE(disk);
    EXPECT_EQ(std::system(("mount -o remount,bind,ro " + path).c_str()), 0);
    EXPECT_FALSE(disk->io->create("other", 4096));
    const auto opened = disk->io->open("page");
    EXPECT_TRUE(opened) << opened.error().message;
  }
  // The kernel closes the files of an io_uring only some time after the ring, so a plain umount
  // could fail.
  EXPECT_EQ(std::system(("umount -l " + path).c_str()), 0);
}

} // namespace
} // namespace peercache::real
