// Tests of what `peercache status` and the metric peercache_disk_incident say of a node whose disk
// fails.

#include "fault_ring.hpp"

#include "cli/doctor/check_ids.hpp"
#include "common/fault_ids.hpp"
#include "metrics/metric_table.hpp"

#include <string_view>

namespace peercache::real::disk_troubles_test {
namespace {

/// One fault of a disk: the node's environment that causes it (common/guards.hpp), and what must
/// report it.
struct row {
  std::string name;
  std::vector<std::pair<std::string, std::string>> environment;
  const char* id;
  std::string_view kind; ///< The label of the metric peercache_disk_incident for this fault.
  std::vector<std::string> words;
};

class disk_troubles : public fault_ring, public testing::WithParamInterface<row> {
protected:
  double incident(std::string_view kind) {
    const auto& at = node(0).ports().control_port;
    auto admin = client::admin_client::connect("127.0.0.1", at, cluster(), milliseconds(2000));
    auto status = admin ? (*admin)->status() : result<client::node_status>(admin.error());
    return status ? status->samples.value(metrics::metric::disk_incident, {kind}) : -1;
  }
};

const std::vector<row> rows{
    {"each_write_takes_long",
     {{"PEERCACHE_TEST_DISK_STALL_MS", "6000"}},
     fault_ids::disk_slow,
     "slow",
     {"is slow: a page took", "iostat", "since 20"}},
    {"no_write_ends",
     {{"PEERCACHE_TEST_DISK_STALL_MS", "600000"}},
     fault_ids::disk_hung,
     "hung",
     {"hangs:", "dmesg", "since 20"}},
    {"each_write_fails",
     {{"PEERCACHE_TEST_DISK_ERROR_PERCENT", "100"}},
     fault_ids::disk_failing,
     "failing",
     {"fails again and again", "Input/output error", "since 20"}},
};

} // namespace

TEST_P(disk_troubles, are_said_with_since_when_and_what_to_do) {
  start({.count = 1,
         .disk = true,
         .program = PEERCACHE_NODE_SWITCHABLE,
         .environment = GetParam().environment});
  if (HasFatalFailure())
    return;
  EXPECT_EQ(incident(GetParam().kind), 0);
  auto client = client_of(0);
  std::uint32_t next = 0;
  // Puts page after page, because the disk's circuit breaker opens only after several failures.
  EXPECT_TRUE(within(milliseconds(15'000), [&] {
    for (int i = 0; i < 20; ++i)
      put_one(*client, next++, 0);
    return says(address(0), GetParam().id, GetParam().words);
  })) << last_.output;
  EXPECT_EQ(incident(GetParam().kind), 1);
  expect_counted(GetParam().id);
  const auto disk = ask_at(address(0), {"disk", "status"});
  EXPECT_EQ(disk.exit_code, 3);
  EXPECT_NE(disk.output.find(GetParam().id), std::string::npos) << disk.output;
}

INSTANTIATE_TEST_SUITE_P(of, disk_troubles, testing::ValuesIn(rows),
                         [](const auto& info) { return info.param.name; });

/// The node does not read a disk tier that another store has written, so the tier's pages are
/// missed.
TEST_F(fault_ring, a_folder_with_the_files_of_another_store_is_said) {
  start({.count = 1, .disk = true});
  if (HasFatalFailure())
    return;
  auto client = client_of(0);
  put(*client, 0, 50);
  ASSERT_TRUE(within(milliseconds(15'000), [this] {
    return ask_at(address(0), {"disk", "status"}).json().value("pages", 0) > 0;
  }));
  client.reset();
  EXPECT_EQ(node(0).stop(milliseconds(20'000)), 0);
  auto launch = launch_of(0);
  launch.control_port = node(0).ports().control_port;
  launch.flags.insert(launch.flags.end(), {"--disk-store", "file_per_key"});
  spawn_node(launch);
  expect_fault(address(0), fault_ids::disk_other_store,
               {"files of the store `bucket`", "Set disk.store back", "since 20"});
  const auto doctor = run_program({PEERCACHE_CLI_DIR "/peercache", "doctor", "-o", "json",
                                   "--node-name", launch.name, "--cluster-name", launch.cluster,
                                   "--disk-path", (launch.folder / "disk").string(), "--disk-size",
                                   "128MiB", "--disk-store", "file_per_key"},
                                  milliseconds(15'000));
  EXPECT_EQ(doctor.exit_code, 3);
  EXPECT_NE(doctor.output.find(cli::check_ids::disk_store), std::string::npos) << doctor.output;
  EXPECT_NE(doctor.output.find("set disk.store back"), std::string::npos) << doctor.output;
}

/// Two nodes of different clusters have the same name, and are configured with the same folder.
TEST_F(fault_ring, a_folder_that_another_node_uses_is_said) {
  start({.count = 1, .disk = true});
  if (HasFatalFailure())
    return;
  auto launch = launch_of(0);
  launch.cluster = asked_cluster_ = "elsewhere";
  launch.control_port = free_port();
  spawn_node(launch);
  expect_fault(at_port(launch.control_port), fault_ids::disk_off,
               {"in use by", "off though disk.path is set"});
}

} // namespace peercache::real::disk_troubles_test
