#include "cli/doctor/check_ids.hpp"
#include "cli/doctor/doctor_host.hpp"
#include "common/ids.hpp"
#include "tests/cli/doctor/doctor_checks.hpp"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/resource.h>

namespace peercache::cli::doctor_host_test {

namespace {

namespace fs = std::filesystem;

host_facts healthy() {
  host_facts facts;
  facts.pool_bytes = 10 * gib;
  facts.shm_bytes = 20 * gib;
  facts.shm_free_bytes = 15 * gib;
  facts.memory_bytes = 64 * gib;
  facts.memory_available_bytes = 40 * gib;
  facts.open_files_most = 1'048'576;
  return facts;
}

/// A folder with fake /proc, /sys and /dev of a machine.
struct fake_root {
  fs::path path =
      fs::path(testing::TempDir()) /
      ("doctor-root-" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
  fake_root() {
    fs::remove_all(path);
    fs::create_directories(path / "dev/shm");
  }
  ~fake_root() { fs::remove_all(path); }
  void write(const fs::path& name, const std::string& text) const {
    fs::create_directories((path / name).parent_path());
    std::ofstream(path / name) << text;
  }
};

config::node_config node_with_pool(std::uint64_t bytes) {
  config::node_config config;
  config.node.name = "node-1";
  config.pool.size_bytes = bytes;
  config.pool.name_prefix = "peercache";
  return config;
}

} // namespace

TEST(doctor_host, a_machine_with_room_has_nothing_to_mend) {
  for (const auto& one : judge_host(healthy()).checks) {
    EXPECT_EQ(one.given, verdict::ok) << one.name << ": " << one.found;
    EXPECT_TRUE(one.fix.empty());
  }
}

TEST(doctor_host, a_pool_larger_than_dev_shm_fails_with_the_size_that_it_takes) {
  auto facts = healthy();
  facts.shm_free_bytes = 4 * gib;
  const auto shm = with_id_of(judge_host(facts), check_ids::shared_memory);
  EXPECT_EQ(shm.given, verdict::fail);
  EXPECT_TRUE(contains(shm.found, "4.0 GiB of 20.0 GiB are free")) << shm.found;
  EXPECT_TRUE(contains(shm.fix, "remount,size=26624M")) << shm.fix;
  EXPECT_TRUE(contains(shm.fix, "--shm-size=26624m")) << shm.fix;
  facts.held_bytes = 6 * gib;
  EXPECT_EQ(with_id_of(judge_host(facts), check_ids::shared_memory).given, verdict::ok)
      << "the node's own pool is not missing";
}

TEST(doctor_host, a_dev_shm_without_a_limit_is_enough) {
  auto facts = healthy();
  facts.shm_bytes = facts.shm_free_bytes = 0;
  EXPECT_EQ(with_id_of(judge_host(facts), check_ids::shared_memory).given, verdict::ok);
}

TEST(doctor_host, a_pool_in_huge_pages_needs_no_dev_shm) {
  auto facts = healthy();
  facts.huge_pages = true;
  facts.shm_free_bytes = 0;
  EXPECT_EQ(with_id_of(judge_host(facts), check_ids::shared_memory).given, verdict::info);
}

TEST(doctor_host, a_pool_larger_than_the_memory_that_is_available_fails) {
  auto facts = healthy();
  facts.memory_available_bytes = 9 * gib;
  auto memory = with_id_of(judge_host(facts), check_ids::memory);
  EXPECT_EQ(memory.given, verdict::fail);
  EXPECT_TRUE(contains(memory.fix, "pool.size = \"8294MiB\"")) << memory.fix;
  facts.huge_pages = true;
  EXPECT_EQ(with_id_of(judge_host(facts), check_ids::memory).given, verdict::ok)
      << "huge pages are reserved already";
  facts.pool_bytes = 65 * gib;
  memory = with_id_of(judge_host(facts), check_ids::memory);
  EXPECT_EQ(memory.given, verdict::fail);
  EXPECT_TRUE(contains(memory.found, "more than the machine has")) << memory.found;
}

TEST(doctor_host, a_cgroup_below_the_pool_fails_with_the_file_of_the_limit) {
  auto facts = healthy();
  facts.cgroup_bytes = 10 * gib;
  facts.cgroup_file = "/sys/fs/cgroup/a/memory.max";
  const auto cgroup = with_id_of(judge_host(facts), check_ids::cgroup_memory);
  EXPECT_EQ(cgroup.given, verdict::fail);
  EXPECT_TRUE(contains(cgroup.found, "/sys/fs/cgroup/a/memory.max")) << cgroup.found;
  EXPECT_TRUE(contains(cgroup.fix, "MemoryMax=")) << cgroup.fix;
  facts.cgroup_bytes = 10 * gib + 1;
  EXPECT_EQ(with_id_of(judge_host(facts), check_ids::cgroup_memory).given, verdict::ok);
}

TEST(doctor_host, few_open_files_are_warned_of_and_very_few_fail) {
  auto facts = healthy();
  const auto files = [&](std::uint64_t most) {
    facts.open_files_most = most;
    return with_id_of(judge_host(facts), check_ids::open_files);
  };
  EXPECT_EQ(files(RLIM_INFINITY).given, verdict::ok);
  EXPECT_EQ(files(open_files_enough).given, verdict::ok);
  EXPECT_EQ(files(open_files_enough - 1).given, verdict::warn);
  EXPECT_EQ(files(open_files_least).given, verdict::warn);
  EXPECT_EQ(files(open_files_least - 1).given, verdict::fail);
  EXPECT_TRUE(contains(files(48).fix, "LimitNOFILE="));
}

TEST(doctor_host, memory_is_that_of_proc_meminfo) {
  const fake_root root;
  root.write("proc/meminfo",
             "MemTotal:       1048576 kB\nMemFree:  1 kB\nMemAvailable:   2048 kB\n");
  const auto facts = gather_host_facts(node_with_pool(64 << 20), root.path);
  EXPECT_EQ(facts.memory_bytes, gib);
  EXPECT_EQ(facts.memory_available_bytes, 2u << 20);
  EXPECT_GT(facts.pool_bytes, 64u << 20) << "the tables count as well";
  EXPECT_FALSE(facts.cgroup_bytes);
}

TEST(doctor_host, the_lowest_limit_of_the_cgroups_of_version_2_counts) {
  const fake_root root;
  root.write("proc/self/cgroup", "0::/system.slice/peercache.service\n");
  root.write("sys/fs/cgroup/memory.max", "max\n");
  root.write("sys/fs/cgroup/system.slice/memory.max", "1000000\n");
  root.write("sys/fs/cgroup/system.slice/peercache.service/memory.max", "2000000\n");
  const auto facts = gather_host_facts(node_with_pool(64 << 20), root.path);
  EXPECT_EQ(facts.cgroup_bytes, 1'000'000u);
  EXPECT_EQ(facts.cgroup_file, (root.path / "sys/fs/cgroup/system.slice/memory.max").string());
  EXPECT_EQ(with_id_of(judge_host(facts), check_ids::cgroup_memory).given, verdict::fail);
}

TEST(doctor_host, the_limit_of_a_cgroup_of_version_1_counts_and_a_huge_number_is_none) {
  const fake_root root;
  root.write("proc/self/cgroup", "8:pids:/a\n4:cpu,memory:/docker/abc\n0::/\n");
  root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_FALSE(gather_host_facts(node_with_pool(64 << 20), root.path).cgroup_bytes);
  // In a container /proc names the cgroup's path on the host, but the container's own limit is at
  // the top of /sys/fs/cgroup.
  root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "5000000\n");
  EXPECT_EQ(gather_host_facts(node_with_pool(64 << 20), root.path).cgroup_bytes, 5'000'000u);
}

TEST(doctor_host, only_this_nodes_pools_count_as_held) {
  const fake_root root;
  const auto own = to_string(incarnation{1, 2});
  root.write("dev/shm/peercache-node-1-" + own, std::string(100'000, 'x'));
  root.write("dev/shm/peercache-node-2-" + own, std::string(100'000, 'x'));
  root.write("dev/shm/peercache-node-1-b-" + own, std::string(100'000, 'x'));
  const auto facts = gather_host_facts(node_with_pool(64 << 20), root.path);
  EXPECT_GE(facts.held_bytes, 100'000u);
  EXPECT_LT(facts.held_bytes, 200'000u);
}

TEST(doctor_host, without_dev_shm_the_check_fails_and_says_why) {
  const fake_root root;
  fs::remove_all(root.path / "dev");
  const auto shm = with_id_of(judge_host(gather_host_facts(node_with_pool(64 << 20), root.path)),
                              check_ids::shared_memory);
  EXPECT_EQ(shm.given, verdict::fail);
  EXPECT_TRUE(contains(shm.found, "No such file")) << shm.found;
}

} // namespace peercache::cli::doctor_host_test
