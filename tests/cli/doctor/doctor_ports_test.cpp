#include "cli/doctor/doctor_ports.hpp"
#include "net/socket.hpp"
#include "tests/cli/doctor/doctor_checks.hpp"
#include "tests/support/qemu_user.hpp"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

namespace peercache::cli::doctor_ports_test {

namespace {

namespace fs = std::filesystem;

listen_facts taken(std::int64_t pid) {
  return {"net.data_port",
          "127.0.0.1",
          31999,
          "Address already in use",
          true,
          {pid, pid == 0 ? "" : "nginx"},
          false};
}

check judged(const listen_facts& facts) {
  return judge_ports({{facts}}).checks.at(0);
}

config::node_config node_at(std::uint16_t control, std::uint16_t data) {
  config::node_config config;
  config.node.name = "node-1";
  config.cluster.name = "c";
  config.net.bind = config.net.advertise = "127.0.0.1";
  config.net.control_port = control;
  config.net.data_port = data;
  return config;
}

} // namespace

TEST(doctor_ports, a_port_that_is_taken_fails_with_its_owner_and_the_option) {
  const auto given = judged(taken(77));
  EXPECT_EQ(given.given, verdict::fail);
  EXPECT_EQ(given.id, "port");
  EXPECT_EQ(given.found, "127.0.0.1:31999 is taken by nginx (process 77)");
  EXPECT_TRUE(contains(given.fix, "net.data_port")) << given.fix;
  EXPECT_TRUE(contains(judged(taken(0)).found, "only root can see"));
}

TEST(doctor_ports, a_port_of_this_very_node_is_no_fault_whoever_can_see_its_process) {
  ports_facts facts{{taken(77), taken(0), taken(0)}};
  facts.ports[2].port = 32'000;
  client::node_status node;
  node.self.data_port = 31'999;
  mark_ports_of(node, facts);
  const auto group = judge_ports(facts);
  EXPECT_EQ(group.checks.at(0).given, verdict::info);
  EXPECT_TRUE(contains(group.checks[0].found, "process 77")) << group.checks[0].found;
  EXPECT_EQ(group.checks.at(1).given, verdict::info) << "its process is hidden";
  EXPECT_EQ(group.checks.at(2).given, verdict::fail) << "the node has another data port";
}

TEST(doctor_ports, an_address_of_another_machine_fails_with_the_option_of_the_address) {
  listen_facts facts{"net.http_port", "10.9.9.9", 31997, "Cannot assign requested address",
                     false,           {},         false};
  EXPECT_EQ(judged(facts).given, verdict::fail);
  EXPECT_TRUE(contains(judged(facts).fix, "metrics.bind"));
  facts.option = "net.control_port";
  EXPECT_TRUE(contains(judged(facts).fix, "net.bind"));
}

TEST(doctor_ports, any_free_port_is_not_looked_for) {
  EXPECT_EQ(judged({"net.lookup_port", "127.0.0.1", 0, "", false, {}, false}).found,
            "any free port");
}

TEST(doctor_ports, a_listener_of_this_process_is_found_and_named) {
  const auto listener = net::listen_on("127.0.0.1", 0, 1);
  ASSERT_TRUE(listener);
  const auto port = net::local_port(*listener);
  const auto facts = gather_ports_facts(node_at(0, port));
  ASSERT_EQ(facts.ports.at(1).port, port);
  EXPECT_TRUE(facts.ports[1].taken) << facts.ports[1].why_not;
  EXPECT_EQ(facts.ports[1].owner.pid, ::getpid());
  // The kernel knows a program that is emulated by the name of its emulator, cut to 15 bytes.
  EXPECT_EQ(facts.ports[1].owner.program, under_qemu_user() ? "qemu-aarch64-st" : "cli_tests");
  EXPECT_FALSE(facts.ports[1].of_this_node);
  EXPECT_EQ(facts.ports.size(), 3u) << "no HTTP port without metrics.enabled";
}

TEST(doctor_ports, an_address_that_is_not_this_machines_is_not_called_taken) {
  auto config = node_at(31'998, 0);
  config.net.bind = "192.0.2.1"; // In TEST-NET-1, so no host has this address.
  const auto facts = gather_ports_facts(config);
  EXPECT_FALSE(facts.ports.at(0).taken);
  EXPECT_NE(facts.ports[0].why_not, "");
}

TEST(doctor_ports, the_owner_is_the_process_that_has_the_sockets_inode_open) {
  const auto root = fs::path(testing::TempDir()) / "doctor-ports-root";
  fs::remove_all(root);
  for (const char* folder : {"proc/self/net", "proc/12/fd", "proc/34/fd", "proc/56/fd"})
    fs::create_directories(root / folder);
  std::ofstream(root / "proc/self/net/tcp")
      << "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  "
         "timeout inode\n"
         "   0: 0100007F:7CFF 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0      "
         "  0 4711 1\n"
         "   1: 0100007F:7CFF 0100007F:0001 01 00000000:00000000 00:00000000 00000000     0      "
         "  0 4712 1\n";
  std::ofstream(root / "proc/self/net/tcp6")
      << "head\n   0: 00000000000000000000000000000000:7CFE "
         "00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 "
         "4713 1\n";
  fs::create_symlink("socket:[4712]", root / "proc/12/fd/3");
  fs::create_symlink("socket:[4711]", root / "proc/34/fd/3");
  fs::create_symlink("socket:[4713]", root / "proc/56/fd/3");
  std::ofstream(root / "proc/34/comm") << "nginx\n";
  std::ofstream(root / "proc/56/comm") << "java\n";
  EXPECT_EQ(owner_of_port(0x7CFF, root).pid, 34) << "the listener, not who is connected";
  EXPECT_EQ(owner_of_port(0x7CFF, root).program, "nginx");
  EXPECT_EQ(owner_of_port(0x7CFE, root).program, "java") << "IPv6";
  EXPECT_EQ(owner_of_port(0x7CFD, root).pid, 0);
  fs::remove_all(root);
}

} // namespace peercache::cli::doctor_ports_test
