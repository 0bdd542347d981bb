// Tests of what a node that cannot join its cluster says: the answer of each address that it asks.

#include "fault_ring.hpp"

#include "common/fault_ids.hpp"

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <unistd.h>

namespace peercache::real::joining_faults_test {
namespace {

/// One reason why a node that starts beside a ring of two cannot join, and what must report it.
struct row {
  std::string name;
  /// Causes the fault. Returns the address of the node that cannot join.
  std::function<std::string(class joining_faults&)> stage;
  const char* id;
  std::vector<std::string> words;
  /// Words with which members report the node that they refuse; empty: members do not know of the
  /// node.
  std::vector<std::string> at_members{};
};

class joining_faults : public fault_ring, public testing::WithParamInterface<row> {
public:
  std::string spawn(std::vector<std::string> seeds, const std::string& name = "outsider",
                    const std::string& host = "127.0.0.1") {
    return spawn_outsider(std::move(seeds), name, host);
  }
  std::string spawn_of_cluster(const std::string& name) {
    const auto seed = address(0);
    asked_cluster_ = name;
    return spawn_outsider({seed});
  }
  std::string spawn_of_newer_wire() {
    return spawn_outsider({address(0)}, "outsider", "127.0.0.1", /*speaks_newer=*/1);
  }
  const cli::ready_line& ports() { return node(0).ports(); }
  std::string head() const { return address(0); }
  static std::string nobody() { return at_port(free_port()); }
  std::string silent_listener() {
    // A queue for all connections that the node makes in a minute: they are established, but nobody
    // accepts them.
    auto made = net::listen_on("127.0.0.1", 0, 1024);
    listener_ = std::move(*made);
    return at_port(net::local_port(listener_));
  }
  static std::string port_of(std::uint16_t port) { return at_port(port); }
  std::string log_of_outsider() const {
    std::ifstream file(folder_->path() / "outsider" / "node.log");
    return {std::istreambuf_iterator<char>(file), {}};
  }

private:
  net::unique_fd listener_;
};

const std::vector<row> rows{
    {"a_seed_where_nobody_listens",
     [](auto& ring) { return ring.spawn({ring.nobody()}); },
     fault_ids::seed_unreachable,
     {"Connection refused", "discovery.seeds"}},
    {"a_seed_whose_name_has_no_address",
     [](auto& ring) { return ring.spawn({"no-such-host.invalid:31998"}); },
     fault_ids::seed_no_address,
     {"no address for the seed no-such-host.invalid:31998", "discovery.seeds", "DNS"}},
    {"a_seed_that_is_an_http_port",
     [](auto& ring) { return ring.spawn({ring.port_of(ring.ports().http_port)}); },
     // The seed is an HTTP port, whose server waits for the rest of a request.
     fault_ids::seed_silent,
     {"no answer in time", "hangs", "net.control_port"}},
    {"a_seed_that_is_a_data_port",
     [](auto& ring) { return ring.spawn({ring.port_of(ring.ports().data_port)}); },
     fault_ids::seed_no_control_port,
     {"no control port", "net.control_port"}},
    {"a_seed_that_says_nothing",
     [](auto& ring) { return ring.spawn({ring.silent_listener()}); },
     fault_ids::seed_silent,
     {"no answer in time", "hangs"}},
    {"a_namesake_at_another_port",
     [](auto& ring) { return ring.spawn({ring.head()}, "node-2"); },
     fault_ids::name_in_use,
     {"a node named 'node-2' lives at 127.0.0.1:", "node.name"},
     {"refuses the node 'node-2' at 127.0.0.1:", "must be unique"}},
    {"a_namesake_on_another_host",
     [](auto& ring) { return ring.spawn({ring.head()}, "node-2", "127.0.0.2"); },
     fault_ids::name_in_use,
     {"a node named 'node-2' lives at 127.0.0.1:", "node.name"},
     {"refuses the node 'node-2' at 127.0.0.2:", "must be unique"}},
    {"a_seed_of_another_cluster",
     [](auto& ring) { return ring.spawn_of_cluster("elsewhere"); },
     fault_ids::seed_other_cluster,
     {"'elsewhere'", "cluster.name"},
     {"refuses 'outsider': its cluster.name is 'elsewhere'", "correct cluster.name there"}},
    {"a_seed_of_another_wire_version",
     [](auto& ring) { return ring.spawn_of_newer_wire(); },
     fault_ids::seed_speaks_other,
     {"speaks wire version", "install the same version of PeerCache on both sides"},
     {"refuses 'outsider': it speaks wire version", "install the same version"}},
};

} // namespace

TEST_P(joining_faults, is_said_with_its_cause_and_what_to_do) {
  start({.count = 2});
  if (HasFatalFailure())
    return;
  const auto outsider = GetParam().stage(*this);
  expect_fault(outsider, GetParam().id, GetParam().words);
  // The node's log must give the reason that its status gives for not being ready.
  const auto reason = last_.json()["unready_reason"].get<std::string>();
  EXPECT_NE(reason.find(GetParam().words.front()), std::string::npos) << reason;
  EXPECT_TRUE(within(milliseconds(15'000), [this] {
    return log_of_outsider().find(GetParam().words.front()) != std::string::npos;
  })) << log_of_outsider();
  asked_cluster_ = cluster();
  if (GetParam().at_members.empty())
    return;
  expect_fault(address(1), fault_ids::join_turned_away, GetParam().at_members);
  expect_counted(fault_ids::join_turned_away);
}

/// A node's only seed may be the node itself by a mistake of the name service, or in a copied
/// configuration.
TEST_F(fault_ring, a_node_whose_only_seed_is_itself_says_that_it_is_alone) {
  start({.count = 1});
  if (HasFatalFailure())
    return;
  auto alone = launch_of(1);
  alone.control_port = free_port();
  alone.seeds = {at_port(alone.control_port)};
  spawn_node(alone);
  expect_fault(alone.seeds.front(), fault_ids::seed_only_self,
               {"names nobody but itself", "name the other nodes there"});
}

/// The name of a seed may have no address at first, when the name service is not ready or the name
/// has a typo that somebody mends.
TEST_F(fault_ring, a_node_comes_in_once_the_name_of_its_seed_has_an_address) {
  if (::geteuid() != 0)
    GTEST_SKIP() << "only root can stage it";
  start({.count = 1});
  if (HasFatalFailure())
    return;
  const auto hosts = folder_->path() / "hosts";
  std::ofstream(hosts) << "127.0.0.1 localhost\n";
  const auto script = folder_->path() / "late-node";
  auto late = launch_of(1);
  std::ofstream(script) << "#!/bin/sh\nexec unshare -m sh -c 'mount --bind " << hosts.string()
                        << " /etc/hosts && exec " << late.program << " \"$@\"' sh \"$@\"\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  late.program = script;
  late.environment = {resolver_of_tests};
  late.control_port = free_port();
  late.seeds = {"late-seed.invalid:" + std::to_string(node(0).ports().control_port)};
  spawn_node(late);
  expect_fault(at_port(late.control_port), fault_ids::seed_no_address, {"late-seed.invalid"});
  EXPECT_TRUE(sees(0, 1));
  std::ofstream(hosts, std::ios::app) << "127.0.0.1 late-seed.invalid\n";
  EXPECT_TRUE(within(milliseconds(20'000), [this] { return sees(0, 2); }));
  EXPECT_TRUE(within(milliseconds(10'000), [&] {
    return ask_at(at_port(late.control_port), {"status"}).exit_code == 0;
  })) << ask_at(at_port(late.control_port), {"status"}).output;
}

INSTANTIATE_TEST_SUITE_P(of, joining_faults, testing::ValuesIn(rows),
                         [](const auto& info) { return info.param.name; });

} // namespace peercache::real::joining_faults_test
