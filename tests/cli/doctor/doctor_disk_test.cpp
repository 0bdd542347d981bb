#include "cli/doctor/check_ids.hpp"
#include "cli/doctor/doctor_disk.hpp"
#include "storage/disk/disk_store.hpp"
#include "storage/disk/folder_claim.hpp"
#include "tests/cli/doctor/doctor_checks.hpp"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <set>
#include <sys/wait.h>
#include <unistd.h>

namespace peercache::cli::doctor_disk_test {

namespace {

namespace fs = std::filesystem;

disk_facts healthy_disk() {
  disk_facts facts;
  facts.path = "/disk";
  facts.folder = "/disk/node-1";
  facts.size_bytes = 100 * gib;
  facts.file_system = "ext4";
  facts.direct = true;
  facts.sync_us = {100, 200, 300};
  facts.used_bytes = 40 * gib;
  facts.free_bytes = 60 * gib;
  return facts;
}

verdict worst_of(const disk_facts& facts) {
  std::vector<check_group> groups = {judge_disk(facts)};
  return cli::worst_of(groups);
}

/// A temporary folder of one test, removed at its end.
struct test_folder {
  fs::path path =
      fs::path(testing::TempDir()) /
      ("doctor-disk-" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
  test_folder() {
    fs::remove_all(path);
    fs::create_directories(path);
  }
  ~test_folder() { fs::remove_all(path); }
};

config::node_config node_with_disk_at(const fs::path& path) {
  config::node_config config;
  config.node.name = "node-1";
  config.disk.enabled = true;
  config.disk.path = path.string();
  config.disk.size_bytes = 1 << 20;
  return config;
}

} // namespace

TEST(doctor_disk, a_disk_that_lacks_nothing_is_ok_in_every_check) {
  auto group = judge_disk(healthy_disk());
  EXPECT_EQ(group.name, "disk");
  std::set<std::string> ids;
  for (const auto& one : group.checks)
    ids.insert(one.id);
  EXPECT_EQ(ids, (std::set<std::string>{check_ids::disk_folder, check_ids::disk_owner,
                                        check_ids::disk_store, check_ids::disk_file_system,
                                        check_ids::disk_direct, check_ids::disk_uring,
                                        check_ids::disk_sync, check_ids::disk_space}));
  for (const auto& one : group.checks)
    EXPECT_EQ(one.given, verdict::ok) << one.name << ": " << one.found;
  EXPECT_EQ(named(group, "folder").found, "/disk/node-1 can be written");
  EXPECT_EQ(named(group, "fsync").found,
            "4 KiB are durable after 0.20 ms (p50), 0.30 ms (p99 of 3)");
}

TEST(doctor_disk, who_wants_no_disk_misses_nothing_and_is_told_why_there_is_none) {
  disk_facts none;
  none.why_not_writable = "nobody looked";
  EXPECT_EQ(worst_of(none), verdict::info);
  EXPECT_TRUE(contains(judge_disk(none).checks.at(0).found, "disk.path is empty"));
  EXPECT_EQ(judge_disk(none).checks.at(0).id, check_ids::disk_tier);
  auto off = healthy_disk();
  off.enabled = false;
  off.why_not_writable = "nobody looked";
  EXPECT_EQ(worst_of(off), verdict::info);
  EXPECT_TRUE(contains(judge_disk(off).checks.at(0).found, "disk.enabled is false"));
}

TEST(doctor_disk, a_folder_that_takes_no_files_fails_and_nothing_else_is_judged) {
  auto facts = healthy_disk();
  facts.why_not_writable = "Permission denied";
  auto group = judge_disk(facts);
  ASSERT_EQ(group.checks.size(), 1u);
  EXPECT_EQ(group.checks[0].given, verdict::fail);
  EXPECT_TRUE(contains(group.checks[0].found, "Permission denied")) << group.checks[0].found;
  EXPECT_TRUE(contains(group.checks[0].fix, "mkdir -p /disk && chown")) << group.checks[0].fix;
}

TEST(doctor_disk, a_folder_that_another_holds_fails_and_this_nodes_own_does_not) {
  auto facts = healthy_disk();
  facts.why_not_ours = "in use by node 'b', process 7";
  EXPECT_EQ(named(judge_disk(facts), "owner").given, verdict::fail);
  EXPECT_TRUE(contains(named(judge_disk(facts), "owner").found, "process 7"));
  facts.held_by_this_node = true;
  EXPECT_EQ(named(judge_disk(facts), "owner").given, verdict::info);
}

TEST(doctor_disk, files_of_another_store_are_warned_of) {
  auto facts = healthy_disk();
  facts.store = "offset";
  facts.other_files = "files of the store `bucket`";
  const auto store = named(judge_disk(facts), "store");
  EXPECT_EQ(store.given, verdict::warn);
  EXPECT_TRUE(contains(store.found, "disk.store = \"offset\" does not read")) << store.found;
}

TEST(doctor_disk, who_holds_a_folder_and_what_lies_there_is_found) {
  const test_folder folder;
  auto config = node_with_disk_at(folder.path);
  config.cluster.name = "c";
  const auto own = (folder.path / "node-1").string();
  {
    const auto claim = storage::folder_claim::take(own, {"c", "node-1"});
    ASSERT_TRUE(claim);
    const auto facts = gather_disk_facts(config);
    EXPECT_TRUE(facts.held_by_this_node) << facts.why_not_ours;
  }
  EXPECT_EQ(gather_disk_facts(config).why_not_ours, "");
  config.cluster.name = "other";
  const auto others = gather_disk_facts(config);
  EXPECT_FALSE(others.held_by_this_node);
  EXPECT_TRUE(contains(others.why_not_ours, "of cluster 'c'")) << others.why_not_ours;
  EXPECT_EQ(others.other_files, "");
  fs::create_directory(fs::path(own) / storage::bucket_store_files());
  std::ofstream(fs::path(own) / storage::bucket_store_files() / "file") << "x";
  config.disk.store = config::disk_store_mode::offset;
  EXPECT_TRUE(contains(gather_disk_facts(config).other_files, "bucket"));
  config.disk.store = config::disk_store_mode::bucket;
  EXPECT_EQ(gather_disk_facts(config).other_files, "");
}

TEST(doctor_disk, file_systems_that_lose_pages_or_ask_other_hosts_are_warned_of) {
  for (const char* bad :
       {"overlay", "tmpfs", "ramfs", "nfs", "cifs", "smb2", "9p", "ceph", "fuse"}) {
    auto facts = healthy_disk();
    facts.file_system = bad;
    EXPECT_EQ(named(judge_disk(facts), "file system").given, verdict::warn) << bad;
  }
  for (const char* good : {"ext4", "xfs", "btrfs", "f2fs", "zfs", "bcachefs", ""}) {
    auto facts = healthy_disk();
    facts.file_system = good;
    EXPECT_EQ(named(judge_disk(facts), "file system").given, verdict::ok) << good;
  }
}

TEST(doctor_disk, without_o_direct_pages_go_through_the_page_cache) {
  auto facts = healthy_disk();
  facts.direct = false;
  EXPECT_EQ(named(judge_disk(facts), "O_DIRECT").given, verdict::warn);
}

TEST(doctor_disk, without_io_uring_it_says_why_and_what_would_be_used) {
  auto facts = healthy_disk();
  facts.why_no_uring = "Operation not permitted";
  auto uring = named(judge_disk(facts), "io_uring");
  EXPECT_EQ(uring.given, verdict::warn);
  EXPECT_TRUE(contains(uring.found, "Operation not permitted")) << uring.found;
  EXPECT_TRUE(contains(uring.fix, "kernel.io_uring_disabled=0")) << uring.fix;
}

TEST(doctor_disk, slow_syncs_are_warned_of_from_the_limit_on) {
  auto facts = healthy_disk();
  facts.sync_us.assign(100, 100.0);
  facts.sync_us[0] = facts.sync_us[1] = sync_p99_us_most;
  EXPECT_EQ(named(judge_disk(facts), "fsync").given, verdict::ok);
  facts.sync_us[0] = facts.sync_us[1] = sync_p99_us_most + 1;
  EXPECT_EQ(named(judge_disk(facts), "fsync").given, verdict::warn);
  facts.sync_us[1] = 100;
  EXPECT_EQ(named(judge_disk(facts), "fsync").given, verdict::ok) << "one of a hundred";
}

TEST(doctor_disk, a_sync_that_fails_is_a_failure_though_others_were_fast) {
  auto facts = healthy_disk();
  facts.why_no_sync = "Input/output error";
  auto sync = named(judge_disk(facts), "fsync");
  EXPECT_EQ(sync.given, verdict::fail);
  EXPECT_TRUE(contains(sync.found, "Input/output error")) << sync.found;
}

TEST(doctor_disk, what_the_node_has_written_already_counts_as_room) {
  auto facts = healthy_disk();
  EXPECT_EQ(named(judge_disk(facts), "space").given, verdict::ok);
  facts.used_bytes -= 1;
  auto space = named(judge_disk(facts), "space");
  EXPECT_EQ(space.given, verdict::warn);
  EXPECT_TRUE(contains(space.fix, "disk.size = \"92159MiB\"")) << space.fix;
}

TEST(doctor_disk, whatever_is_warned_of_or_fails_says_how_to_mend_it) {
  auto facts = healthy_disk();
  facts.file_system = "nfs";
  facts.direct = false;
  facts.why_no_uring = "forbidden";
  facts.why_no_sync = "broken";
  facts.free_bytes = 0;
  auto forbidden = healthy_disk();
  forbidden.why_not_writable = "forbidden";
  for (const auto& one : {facts, forbidden, healthy_disk(), disk_facts{}})
    for (const auto& given : judge_disk(one).checks)
      EXPECT_EQ(given.fix.empty(), given.given <= verdict::info) << given.name;
}

TEST(doctor_disk, looking_at_a_folder_that_is_not_there_yet_leaves_nothing_behind) {
  const test_folder folder;
  const auto path = folder.path / "below" / "disk";
  auto facts = gather_disk_facts(node_with_disk_at(path));
  EXPECT_EQ(facts.why_not_writable, "");
  EXPECT_EQ(facts.folder, (path / "node-1").string());
  EXPECT_EQ(facts.why_no_sync, "");
  EXPECT_FALSE(facts.sync_us.empty());
  EXPECT_GT(facts.free_bytes, 0u);
  EXPECT_EQ(facts.used_bytes, 0u);
  EXPECT_TRUE(fs::is_empty(folder.path));
}

TEST(doctor_disk, only_the_nodes_own_files_count_as_used) {
  const test_folder folder;
  const auto write = [&](const fs::path& file) {
    fs::create_directories(file.parent_path());
    std::ofstream(file) << std::string(100'000, 'x');
  };
  write(folder.path / "node-1" / "buckets" / "a");
  write(folder.path / "node-2" / "b");
  auto facts = gather_disk_facts(node_with_disk_at(folder.path));
  EXPECT_GE(facts.used_bytes, 100'000u);
  EXPECT_LT(facts.used_bytes, 200'000u);
  EXPECT_TRUE(fs::exists(folder.path / "node-1" / "buckets" / "a"));
}

TEST(doctor_disk, a_path_through_a_file_cannot_be_written) {
  const test_folder folder;
  std::ofstream(folder.path / "file") << "not a folder";
  auto facts = gather_disk_facts(node_with_disk_at(folder.path / "file" / "disk"));
  EXPECT_NE(facts.why_not_writable, "");
  EXPECT_EQ(worst_of(facts), verdict::fail);
}

TEST(doctor_disk, files_that_cannot_be_counted_in_time_are_said_and_stop_no_other_check) {
  const test_folder folder;
  fs::create_directories(folder.path / "node-1");
  std::ofstream(folder.path / "node-1" / "page") << std::string(10'000, 'x');
  auto config = node_with_disk_at(folder.path);
  const auto whole = gather_disk_facts(config);
  EXPECT_FALSE(whole.more_is_used);
  EXPECT_GE(whole.used_bytes, 10'000u);
  config.disk.size_bytes = whole.whole_bytes;
  auto part = gather_disk_facts(config, std::chrono::milliseconds(0));
  EXPECT_TRUE(part.more_is_used);
  const auto group = judge_disk(part);
  EXPECT_EQ(group.checks.size(), 8u);
  const auto space = named(group, "space");
  EXPECT_EQ(space.given, verdict::info);
  EXPECT_TRUE(contains(space.found, "at least ")) << space.found;
  part.size_bytes = whole.whole_bytes + 1;
  EXPECT_EQ(named(judge_disk(part), "space").given, verdict::warn) << "no file system holds more";
}

/// Starts a process that checks the disk, and kills it while its trial folder exists. Returns false
/// when the process had ended before.
bool kill_in_its_trial(const config::node_config& config, const fs::path& parent) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    gather_disk_facts(config);
    ::_exit(0);
  }
  while (::waitpid(pid, nullptr, WNOHANG) == 0)
    if (!fs::is_empty(parent)) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
      break;
    }
  return !fs::is_empty(parent);
}

TEST(doctor_disk, what_a_killed_look_left_is_removed_by_a_later_one) {
  const test_folder folder;
  const auto config = node_with_disk_at(folder.path);
  const auto parent = folder.path / "node-1";
  fs::create_directories(parent);
  int tries = 0;
  while (!kill_in_its_trial(config, parent) && tries < 1000)
    ++tries;
  ASSERT_FALSE(fs::is_empty(parent));
  const auto notes =
      folder.path / "peercache-doctor-notes1"; // Not a doctor's folder, though the name is as long.
  fs::create_directory(notes);
  fs::last_write_time(notes, fs::file_time_type::clock::now() - std::chrono::hours(1));
  const auto left = fs::directory_iterator(parent)->path();
  gather_disk_facts(config);
  EXPECT_TRUE(fs::exists(left)) << "it may be that of a doctor who still looks";
  fs::last_write_time(left, fs::file_time_type::clock::now() - std::chrono::hours(1));
  gather_disk_facts(config);
  EXPECT_TRUE(fs::is_empty(parent));
  gather_disk_facts(node_with_disk_at(folder.path / "new"));
  EXPECT_TRUE(fs::exists(notes)) << "it lies beside the node's folder";
}

TEST(doctor_disk, a_folder_that_no_doctor_made_stays) {
  const test_folder folder;
  const auto parent = folder.path / "node-1";
  // Not a doctor's: mode 0755, and mkdtemp makes 0700.
  fs::create_directories(parent / "peercache-doctor-notes1");
  fs::permissions(parent / "peercache-doctor-notes1", fs::perms(0755));
  fs::last_write_time(parent / "peercache-doctor-notes1",
                      fs::file_time_type::clock::now() - std::chrono::hours(1));
  gather_disk_facts(node_with_disk_at(folder.path));
  EXPECT_TRUE(fs::exists(parent / "peercache-doctor-notes1"));
}

TEST(doctor_disk, a_node_of_this_name_and_another_cluster_is_not_this_node) {
  const test_folder folder;
  auto config = node_with_disk_at(folder.path);
  config.cluster.name = "ours";
  const auto path = (folder.path / "node-1").string();
  const auto claim = storage::folder_claim::take(path, {"theirs", "node-1"});
  ASSERT_TRUE(claim);
  EXPECT_EQ(named(judge_disk(gather_disk_facts(config)), "owner").given, verdict::fail);
  config.cluster.name = "theirs";
  EXPECT_EQ(named(judge_disk(gather_disk_facts(config)), "owner").given, verdict::info);
}

} // namespace peercache::cli::doctor_disk_test
