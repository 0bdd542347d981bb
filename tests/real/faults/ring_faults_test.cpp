// Tests of what the status of a healthy member says of faults of other members.

#include "fault_ring.hpp"

#include "common/fault_ids.hpp"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>

namespace peercache::real::ring_faults_test {
namespace {

/// Where Debian's package faketime has its library.
constexpr const char* fake_time = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";

/// One fault of a ring of three nodes: how it is staged, and what must report it.
struct row {
  std::string name;
  std::function<void(class ring_faults&)> stage;
  const char* id;
  std::vector<std::string> words;
  std::size_t asked = 0; ///< Index of the node whose `status` tells the fault.
};

class ring_faults : public fault_ring, public testing::WithParamInterface<row> {
public:
  void kill_node(std::size_t index) { kill(index); }
  void freeze_node(std::size_t index) { freeze(index); }
  /// Starts one more node that differs from the others in these flags.
  void join_with(std::vector<std::string> flags) {
    auto launch = launch_of(node_count());
    launch.seeds = {address(0)};
    launch.flags.insert(launch.flags.end(), flags.begin(), flags.end());
    spawn_node(launch);
  }
  /// Kills a node, and a second one once the others have expelled the first.
  void kill_one_after_the_other() {
    kill(1);
    EXPECT_TRUE(within(milliseconds(10'000), [this] { return sees(0, 2); }));
    kill(2);
  }
  /// Starts one more node whose wall clock is off by `offset`, which is in the syntax of the
  /// program faketime.
  void join_with_clock(const char* offset) {
    auto launch = launch_of(node_count());
    launch.seeds = {address(0)};
    // Changes only the wall clock (time of day); the node's monotonic clock stays right.
    launch.environment = {
        {"LD_PRELOAD", fake_time}, {"FAKETIME", offset}, {"FAKETIME_DONT_FAKE_MONOTONIC", "1"}};
    spawn_node(launch);
  }
  /// Starts one more node that says that its version is `version`.
  void join_with_version(const std::string& version) {
    auto launch = launch_of(node_count());
    launch.seeds = {address(0)};
    launch.program = PEERCACHE_NODE_SWITCHABLE;
    launch.environment = {{"PEERCACHE_TEST_VERSION", version}};
    spawn_node(launch);
  }
  /// Starts a node whose disk tier is larger than its device, and puts pages until that is full.
  void join_with_a_small_device() {
    auto launch = launch_of(node_count());
    const auto disk = (folder_->path() / "small").string();
    const auto script = folder_->path() / "small-node";
    std::ofstream(script) << "#!/bin/sh\nexec unshare -m sh -c 'mkdir -p " << disk
                          << " && mount -t tmpfs -o size=6m tmpfs " << disk << " && exec "
                          << launch.program << " \"$@\"' sh \"$@\"\n";
    std::filesystem::permissions(script, std::filesystem::perms::owner_all);
    launch.program = script;
    launch.seeds = {address(0)};
    launch.control_port = free_port();
    launch.flags.insert(launch.flags.end(), {"--disk-path", disk, "--disk-size", "128MiB",
                                             "--disk-bucket-size", "1MiB"});
    spawn_node(launch);
    std::unique_ptr<client::cache_client> client;
    ASSERT_TRUE(within(milliseconds(15'000), [&] {
      client = client_at("127.0.0.1", launch.control_port);
      return client && put_one(*client, 0, 0) == page_status::stored;
    }));
    for (std::uint32_t page = 1; page < 800; ++page)
      put_one(*client, page, 0);
  }
  void drain_all() {
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_EQ(ask_at(address(0), {"drain", node(i).launch().name, "--yes"}).exit_code, 0);
  }
  /// Starts one more node whose disk tier cannot be used.
  void join_with_file_for_a_disk() {
    const auto path = folder_->path() / "no-folder";
    std::ofstream(path) << "a file";
    join_with(
        {"--disk-path", path.string(), "--disk-size", "128MiB", "--disk-bucket-size", "32MiB"});
  }
};

const std::vector<row> rows{
    {"a_node_is_killed",
     [](auto& ring) { ring.kill_node(2); },
     fault_ids::node_gone,
     {"node-3", "connection broke", "peercache forget"}},
    {"the_head_is_killed",
     [](auto& ring) { ring.kill_node(0); },
     fault_ids::node_gone,
     {"node-1", "connection broke", "peercache forget"},
     1},
    {"a_node_is_frozen",
     [](auto& ring) { ring.freeze_node(2); },
     fault_ids::node_gone,
     {"node-3", "silent", "start it again"}},
    {"two_of_three_are_killed",
     [](auto& ring) {
       ring.kill_node(1);
       ring.kill_node(2);
     },
     fault_ids::node_gone,
     {"node-2", "connection broke"}},
    {"two_of_three_are_killed_one_after_the_other",
     [](auto& ring) { ring.kill_one_after_the_other(); },
     fault_ids::node_gone,
     {"node-3", "connection broke"}},
    {"two_of_three_masters_are_killed",
     [](auto& ring) {
       ring.kill_node(1);
       ring.kill_node(2);
     },
     fault_ids::fragment,
     {"start"}},
    {"a_clock_is_an_hour_ahead",
     [](auto& ring) { ring.join_with_clock("+1h"); },
     fault_ids::clock_differs,
     {"node-4", "3600", "NTP"}},
    {"a_clock_is_two_days_behind",
     [](auto& ring) { ring.join_with_clock("-2d"); },
     fault_ids::clock_differs,
     {"node-4", "172800", "NTP"}},
    {"versions_differ",
     [](auto& ring) { ring.join_with_version("9.9.9"); },
     fault_ids::version_differs,
     {"9.9.9 (node-4)", "finish the upgrade"}},
    {"a_device_is_full",
     [](auto& ring) { ring.join_with_a_small_device(); },
     fault_ids::disk_full,
     {"node-4", "disk.size", "since 20"}},
    {"all_nodes_are_drained",
     [](auto& ring) { ring.drain_all(); },
     fault_ids::node_unready,
     {"drained", "peercache undrain"}},
    {"replicas_differ",
     [](auto& ring) {
       ring.join_with({"--directory-replicas", "3"});
     },
     fault_ids::option_differs,
     {"directory.replicas: 2 (node-1", "3 (node-4)", "alike"}},
    {"a_disk_that_cannot_be_used",
     [](auto& ring) { ring.join_with_file_for_a_disk(); },
     fault_ids::disk_off,
     {"node-4", "no-folder", "off though disk.path is set"}},
};

} // namespace

TEST_P(ring_faults, is_said_with_its_cause_and_what_to_do) {
  start({.count = 3});
  if (HasFatalFailure())
    return;
  ASSERT_TRUE(within(milliseconds(20'000), [this] {
    return ask_at(address(0), {"status"}).exit_code == 0;
  })) << ask_at(address(0), {"status"}).output;
  if (GetParam().name.starts_with("a_clock") && !std::filesystem::exists(fake_time))
    GTEST_SKIP() << "the package faketime is not installed";
  GetParam().stage(*this);
  expect_fault(address(GetParam().asked), GetParam().id, GetParam().words);
  expect_counted(GetParam().id);
}

INSTANTIATE_TEST_SUITE_P(of, ring_faults, testing::ValuesIn(rows),
                         [](const auto& info) { return info.param.name; });

/// A firewall drops all packets to the data port of a node.
TEST_F(fault_ring, a_data_port_behind_a_firewall_is_named_by_status_and_key_explain) {
  start({.count = 3, .own_hosts = true});
  if (HasFatalFailure() || IsSkipped())
    return;
  const auto scope = at(0);
  const auto put = run_cli(
      {"put", "page", "--value", "hello", "--cluster", asked_cluster_, "--node", address(2)});
  ASSERT_EQ(put.exit_code, 0) << put.output;
  ASSERT_TRUE(lab().close_port(2, node(2).ports().data_port));
  const auto port = std::to_string(node(2).ports().data_port);
  expect_fault(address(0), fault_ids::port_out_of_reach, {"node-3", port, "net.data_port"});
  expect_counted(fault_ids::port_out_of_reach);
  EXPECT_TRUE(within(milliseconds(15'000), [&] {
    last_ = ask_at(address(0), {"key", "explain", "page"});
    return last_.exit_code == 1 && last_.output.find("net.data_port") != std::string::npos;
  })) << last_.output;
}

/// A firewall drops all packets to a node's look-up port. Clients ask the directory there, and take
/// a node that does not answer there for gone.
TEST_F(fault_ring, a_look_up_port_behind_a_firewall_is_named_by_status) {
  start({.count = 3, .own_hosts = true});
  if (HasFatalFailure() || IsSkipped())
    return;
  const auto scope = at(0);
  const auto said = ask_at(address(2), {"status"}).json();
  const auto port = said["lookup_port"].get<std::uint16_t>();
  ASSERT_TRUE(lab().close_port(2, port));
  expect_fault(address(0), fault_ids::port_out_of_reach,
               {"node-3", std::to_string(port), "net.lookup_port"});
  expect_counted(fault_ids::port_out_of_reach);
}

/// A reader with another key space than the writer misses, and is told where to look.
TEST_F(fault_ring, another_key_space_is_named_by_key_explain) {
  start({.count = 1});
  if (HasFatalFailure())
    return;
  ASSERT_EQ(ask_at(address(0), {"put", "page", "--value", "x", "--namespace", "llama"}).exit_code,
            0);
  EXPECT_EQ(ask_at(address(0), {"key", "explain", "page", "--namespace", "llama"}).exit_code, 0);
  last_ = ask_at(address(0), {"key", "explain", "page", "--namespace", "lama"});
  EXPECT_EQ(last_.exit_code, 1);
  EXPECT_NE(last_.output.find("its namespace differs"), std::string::npos) << last_.output;
}

/// SIGHUP, SIGUSR1 and SIGUSR2, which log rotation or operators may send, end no node.
TEST_F(fault_ring, a_hangup_and_a_user_signal_do_no_harm) {
  start({.count = 1});
  if (HasFatalFailure())
    return;
  for (const int number : {SIGHUP, SIGUSR1, SIGUSR2})
    node(0).process().signal(number);
  EXPECT_FALSE(node(0).process().wait(milliseconds(1500)).has_value()) << "it ended";
  EXPECT_EQ(ask_at(address(0), {"status"}).exit_code, 0);
}

/// A command that finds no node says at which address it asked, and how to name another address.
TEST_F(fault_ring, a_client_without_a_node_is_told_where_it_asked) {
  asked_cluster_ = "any";
  const auto where = at_port(free_port());
  for (const std::vector<std::string>& command : {std::vector<std::string>{"status"},
                                                  {"put", "page", "--value", "x"},
                                                  {"key", "explain", "page"}}) {
    last_ = ask_at(where, command);
    EXPECT_EQ(last_.exit_code, 4);
    EXPECT_NE(last_.output.find("no peercache-node answers at " + where), std::string::npos)
        << last_.output;
    EXPECT_NE(last_.output.find("--node"), std::string::npos) << last_.output;
  }
}

} // namespace peercache::real::ring_faults_test
