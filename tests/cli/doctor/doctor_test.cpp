#include "cli/doctor/check_ids.hpp"
#include "cli/doctor/doctor_rdma.hpp"
#include "tests/cli/doctor/doctor_checks.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace peercache::cli::doctor_test {

namespace {

constexpr std::uint64_t mib = 1ull << 20;

rdma::verbs::gid_bytes gid_of_address(std::uint8_t last) {
  return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last};
}

/// Returns facts of an RDMA port in which no check finds a fault.
port_facts healthy_port(const std::string& device) {
  port_facts port;
  port.report = {.device = device,
                 .port = 1,
                 .usable = true,
                 .state = "active",
                 .bits_per_second = 100'000'000'000,
                 .numa_node = 1,
                 .gid_index = 3,
                 .gid = gid_of_address(7),
                 .gid_type = "RoCE v2"};
  port.report.can.mtu_bytes = 4096;
  port.interface = "eth4";
  port.interface_mtu = 9000;
  return port;
}

rdma_facts healthy_host() {
  rdma_facts facts;
  facts.pool_bytes = 64 * gib;
  facts.ports = {healthy_port("mlx5_0"), healthy_port("mlx5_1")};
  facts.memlock_limit_bytes = RLIM_INFINITY;
  return facts;
}

rdma_facts bare_host() {
  auto facts = healthy_host();
  facts.ports.clear();
  facts.why_no_device = "the kernel has no RDMA support loaded";
  return facts;
}

rdma_facts host_with_huge_pages() {
  auto facts = healthy_host();
  facts.pool_bytes = 64 * mib;
  facts.huge_pages = config::huge_pages::size_2mib;
  facts.huge = {.page_bytes = 2 * mib, .reserved = 35, .free = 35, .mounted = true};
  return facts;
}

exit_code code_of(const rdma_facts& facts) {
  std::vector<check_group> groups = {judge_rdma(facts)};
  return exit_code_of(groups);
}

} // namespace

TEST(doctor, a_host_that_lacks_nothing_ends_with_0) {
  auto group = judge_rdma(healthy_host());
  for (const auto& one : group.checks)
    EXPECT_LE(one.given, verdict::info) << one.name << ": " << one.found;
  EXPECT_EQ(code_of(healthy_host()), exit_code::ok);
  EXPECT_EQ(named(group, "data plane").found, "RDMA will be used over mlx5_0/1, mlx5_1/1");
  EXPECT_EQ(named(group, "mlx5_1/1").found,
            "active, Ethernet, 100 Gbit/s, NUMA node 1, interface eth4");
  EXPECT_EQ(named(group, "mlx5_0/1 GID").found, "index 3, ::ffff:10.0.0.7, RoCE v2");
}

TEST(doctor, each_check_of_rdma_has_the_id_of_what_it_judges) {
  const auto group = judge_rdma(healthy_host());
  EXPECT_EQ(named(group, "data plane").id, check_ids::data_plane);
  EXPECT_EQ(named(group, "mlx5_0/1").id, check_ids::rdma_port);
  EXPECT_EQ(named(group, "mlx5_0/1 GID").id, check_ids::rdma_gid);
  EXPECT_EQ(named(group, "mlx5_0/1 MTU").id, check_ids::rdma_mtu);
}

TEST(doctor, without_a_device_tcp_will_be_used_and_it_says_what_to_do) {
  auto plane = named(judge_rdma(bare_host()), "data plane");
  EXPECT_EQ(plane.given, verdict::warn);
  EXPECT_TRUE(plane.found.starts_with("no RDMA device: TCP will be used")) << plane.found;
  EXPECT_TRUE(contains(plane.found, "no RDMA support loaded")) << plane.found;
  EXPECT_TRUE(contains(plane.fix, "data_plane = \"tcp\"")) << plane.fix;
  EXPECT_EQ(code_of(bare_host()), exit_code::degraded);
}

TEST(doctor, without_a_device_data_plane_verbs_fails) {
  auto facts = bare_host();
  facts.wanted.mode = rdma::plane_mode::verbs;
  EXPECT_EQ(named(judge_rdma(facts), "data plane").given, verdict::fail);
}

TEST(doctor, who_asks_for_tcp_misses_no_device) {
  auto facts = bare_host();
  facts.wanted.mode = rdma::plane_mode::tcp;
  facts.memlock_limit_bytes = 8 * mib;
  EXPECT_EQ(code_of(facts), exit_code::ok);
}

TEST(doctor, a_port_that_is_down_is_named_with_its_interface) {
  auto facts = healthy_host();
  facts.ports[1].report.usable = false;
  facts.ports[1].report.state = "down";
  facts.ports[1].report.why_not = "the port is down";
  auto group = judge_rdma(facts);
  EXPECT_EQ(named(group, "mlx5_1/1").given, verdict::warn);
  EXPECT_EQ(named(group, "mlx5_1/1").fix, "ip link set eth4 up");
  EXPECT_EQ(named(group, "data plane").found, "RDMA will be used over mlx5_0/1");
  EXPECT_EQ(named(group, "mlx5_1/1 MTU").name, "no such check")
      << "nothing to say of it while down";
}

TEST(doctor, an_index_of_the_gid_table_that_fits_no_port_is_named_with_the_option) {
  auto facts = healthy_host();
  for (auto& port : facts.ports) {
    port.report.usable = false;
    port.report.why_not = "GID 9 was asked for, but the port has 4 entries";
  }
  facts.wanted.gid_index = 9;
  facts.wanted.mode = rdma::plane_mode::verbs;
  auto group = judge_rdma(facts);
  EXPECT_EQ(named(group, "data plane").given, verdict::fail);
  EXPECT_EQ(named(group, "mlx5_0/1").given, verdict::warn);
  EXPECT_NE(named(group, "mlx5_0/1").found.find("GID 9"), std::string::npos);
  EXPECT_NE(named(group, "mlx5_0/1").fix.find("rdma.gid_index = 255"), std::string::npos);
  facts.wanted.gid_index = -1;
  EXPECT_EQ(named(judge_rdma(facts), "mlx5_0/1").fix, "ip address add ADDRESS/PREFIX dev eth4")
      << "the node chose, and found none";
}

TEST(doctor, a_device_takes_part_with_one_port) {
  auto facts = healthy_host();
  facts.ports.push_back(healthy_port("mlx5_1"));
  facts.ports.back().report.port = 2;
  EXPECT_EQ(named(judge_rdma(facts), "data plane").found,
            "RDMA will be used over mlx5_0/1, mlx5_1/1");
}

TEST(doctor, what_the_configuration_leaves_out_is_not_judged) {
  auto facts = healthy_host();
  facts.wanted.devices = {"mlx5_1"};
  facts.ports[0].report.usable = false;
  facts.ports[0].report.state = "down";
  auto group = judge_rdma(facts);
  EXPECT_EQ(named(group, "mlx5_0/1").given, verdict::info);
  EXPECT_EQ(named(group, "data plane").found, "RDMA will be used over mlx5_1/1");
  EXPECT_EQ(code_of(facts), exit_code::ok);
}

TEST(doctor, a_configured_device_that_is_not_there_is_named) {
  auto facts = healthy_host();
  facts.wanted.devices = {"mlx5_0", "mlx5_9"};
  EXPECT_EQ(named(judge_rdma(facts), "mlx5_9").given, verdict::warn);
  EXPECT_EQ(named(judge_rdma(facts), "mlx5_9").id, check_ids::rdma_device);
  EXPECT_EQ(named(judge_rdma(facts), "data plane").given, verdict::ok);
  facts.wanted.mode = rdma::plane_mode::verbs;
  EXPECT_EQ(named(judge_rdma(facts), "data plane").given, verdict::fail)
      << "a node would not start";
}

TEST(doctor, a_link_local_gid_is_warned_of) {
  auto facts = healthy_host();
  facts.ports[0].report.gid = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  auto gid = named(judge_rdma(facts), "mlx5_0/1 GID");
  EXPECT_EQ(gid.given, verdict::warn);
  EXPECT_TRUE(contains(gid.fix, "dev eth4")) << gid.fix;
}

TEST(doctor, a_small_mtu_is_warned_of_with_the_interface_that_limits_it) {
  auto facts = healthy_host();
  facts.ports[0].report.can.mtu_bytes = 1024;
  facts.ports[0].interface_mtu = 1500;
  auto mtu = named(judge_rdma(facts), "mlx5_0/1 MTU");
  EXPECT_EQ(mtu.given, verdict::warn);
  EXPECT_TRUE(contains(mtu.found, "1024 bytes active, eth4 has 1500")) << mtu.found;
  EXPECT_TRUE(mtu.fix.starts_with("ip link set eth4 mtu 4200")) << mtu.fix;
}

TEST(doctor, a_small_mtu_on_infiniband_is_the_subnet_managers) {
  auto facts = healthy_host();
  facts.ports[0].report.layer = rdma::verbs::link_layer::infiniband;
  facts.ports[0].report.can.mtu_bytes = 2048;
  EXPECT_TRUE(contains(named(judge_rdma(facts), "mlx5_0/1 MTU").fix, "opensm"));
}

TEST(doctor, a_device_without_windows_is_named_where_they_are_asked_for) {
  auto facts = healthy_host();
  facts.ports[1].report.can.windows = true;
  facts.ports[1].report.can.windows_max = 1 << 24;
  EXPECT_EQ(named(judge_rdma(facts), "mlx5_0/1 windows").name, "no such check");
  facts.wanted.windows = true;
  auto group = judge_rdma(facts);
  EXPECT_EQ(named(group, "mlx5_1/1 windows").given, verdict::ok);
  EXPECT_TRUE(contains(named(group, "mlx5_1/1 windows").found, "16777216"));
  EXPECT_EQ(named(group, "mlx5_0/1 windows").given, verdict::fail);
  EXPECT_EQ(named(group, "mlx5_0/1 windows").id, check_ids::rdma_windows);
  EXPECT_TRUE(contains(named(group, "mlx5_0/1 windows").fix, "leave mlx5_0 out of rdma.devices"));
  facts.wanted.mode = rdma::plane_mode::tcp;
  EXPECT_EQ(named(judge_rdma(facts), "mlx5_0/1 windows").given, verdict::info);
}

TEST(doctor, windows_are_counted_against_what_the_pool_and_the_connections_take) {
  auto facts = healthy_host(); // Pages of 64 GiB and a table of 1 GiB: 66 chunks of 1 GiB.
  facts.wanted.windows = true;
  facts.ports[0].report.can.windows = true;
  const auto judged = [&facts](std::uint32_t windows_max) {
    facts.ports[0].report.can.windows_max = windows_max;
    return named(judge_rdma(facts), "mlx5_0/1 windows");
  };
  EXPECT_EQ(judged(66 * 4096).given, verdict::ok);
  EXPECT_TRUE(contains(judged(66 * 4096).found, "takes 66 for a pool of 64")) << judged(1).found;
  EXPECT_EQ(judged(66 * 4096 - 1).given, verdict::warn);
  EXPECT_TRUE(contains(judged(6600).found, "last for 100 of 4096 connections"));
  EXPECT_TRUE(contains(judged(6600).fix, "rdma.chunk_size = \"2GiB\", with which a connection "
                                         "takes 33; or lower pool.size"));
  EXPECT_EQ(judged(66).given, verdict::warn);
  EXPECT_EQ(judged(65).given, verdict::fail);
  EXPECT_TRUE(contains(judged(65).found, "a node does not start"));
  facts.chunk_bytes = 2 * gib;
  EXPECT_TRUE(judged(33).fix.starts_with("lower pool.size, or set rdma.windows = false"));
  EXPECT_EQ(judged(0).given, verdict::ok) << "the device does not say";
}

TEST(doctor, huge_pages_are_counted_in_the_size_that_was_chosen) {
  auto facts = healthy_host();
  facts.pool_bytes = 8 * gib;
  facts.huge_pages = config::huge_pages::size_1gib;
  facts.huge = {.page_bytes = gib, .reserved = 11, .free = 11, .held = 0, .mounted = true};
  // One page each for the header, for what clients write, and for the slot table.
  EXPECT_EQ(named(judge_rdma(facts), "huge pages").given, verdict::ok);
  facts.huge.free = 10;
  const auto few = named(judge_rdma(facts), "huge pages");
  EXPECT_EQ(few.given, verdict::fail);
  EXPECT_TRUE(contains(few.found, "11 pages of 1GiB reserved, 10 free")) << few.found;
  EXPECT_TRUE(contains(few.found, "the pool takes 11")) << few.found;
  EXPECT_TRUE(contains(few.fix, "echo 12 > /sys/kernel/mm/hugepages/hugepages-1048576kB/"))
      << few.fix;
}

TEST(doctor, memlock_must_hold_the_pool_and_its_slot_table_once_for_each_port) {
  auto facts = healthy_host();
  facts.memlock_limit_bytes = locked_bytes(facts.pool_bytes, config::huge_pages::off, 2);
  // The slot table adds 64 bytes for each 4 KiB of the pool.
  EXPECT_EQ(facts.memlock_limit_bytes, 2 * 65 * gib);
  EXPECT_EQ(named(judge_rdma(facts), "memlock").given, verdict::ok);
  --facts.memlock_limit_bytes;
  auto memlock = named(judge_rdma(facts), "memlock");
  EXPECT_EQ(memlock.given, verdict::fail);
  EXPECT_TRUE(contains(memlock.found, "130.0 GiB")) << memlock.found;
  EXPECT_TRUE(contains(memlock.fix, "LimitMEMLOCK=infinity")) << memlock.fix;
}

TEST(doctor, memlock_must_hold_whole_huge_pages_where_the_pool_has_them) {
  auto facts = healthy_host();
  facts.pool_bytes = 8 * gib;
  facts.huge_pages = config::huge_pages::size_1gib;
  // The slot table has 128 MiB, and a huge page of its own.
  facts.memlock_limit_bytes = 2 * 9 * gib;
  EXPECT_EQ(named(judge_rdma(facts), "memlock").given, verdict::ok);
  --facts.memlock_limit_bytes;
  const auto memlock = named(judge_rdma(facts), "memlock");
  EXPECT_EQ(memlock.given, verdict::fail);
  EXPECT_TRUE(contains(memlock.found, "18.0 GiB")) << memlock.found;
}

TEST(doctor, windows_are_counted_for_whole_huge_pages_where_the_pool_has_them) {
  auto facts = healthy_host();
  facts.pool_bytes = 8 * gib;
  facts.wanted.windows = true;
  facts.ports[0].report.can.windows = true;
  facts.ports[0].report.can.windows_max = 8 * 4096;
  const auto found = [&facts] { return named(judge_rdma(facts), "mlx5_0/1 windows").found; };
  facts.chunk_bytes = 128 * mib; // A table of one chunk and pages of 64, which begin anywhere.
  EXPECT_TRUE(contains(found(), "takes 66 for a pool of 8")) << found();
  facts.huge_pages = config::huge_pages::size_2mib;
  EXPECT_TRUE(contains(found(), "takes 65 for a pool of 8")) << found();
  facts.huge_pages = config::huge_pages::size_1gib;
  EXPECT_TRUE(contains(found(), "takes 72 for a pool of 8")) << found();
}

TEST(doctor, without_a_port_the_memlock_limit_counts_only_for_who_insists_on_one) {
  auto facts = bare_host();
  facts.memlock_limit_bytes = 8 * mib;
  EXPECT_EQ(named(judge_rdma(facts), "memlock").given, verdict::info);
  facts.wanted.mode = rdma::plane_mode::verbs;
  EXPECT_EQ(named(judge_rdma(facts), "memlock").given, verdict::fail);
}

TEST(doctor, the_memlock_limit_does_not_count_for_who_may_lock_anything) {
  auto facts = healthy_host();
  facts.memlock_limit_bytes = 0;
  facts.memlock_exempt = true;
  EXPECT_EQ(named(judge_rdma(facts), "memlock").given, verdict::ok);
}

TEST(doctor, huge_pages_that_are_reserved_and_mounted_are_enough) {
  EXPECT_EQ(named(judge_rdma(host_with_huge_pages()), "huge pages").given, verdict::ok);
}

TEST(doctor, one_huge_page_too_few_fails_with_the_number_to_reserve) {
  auto facts = host_with_huge_pages();
  facts.huge.reserved = facts.huge.free = 34;
  auto huge = named(judge_rdma(facts), "huge pages");
  EXPECT_EQ(huge.given, verdict::fail);
  EXPECT_EQ(huge.fix, "sysctl -w vm.nr_hugepages=35");
}

TEST(doctor, huge_pages_of_somebody_else_are_reserved_on_top) {
  auto facts = host_with_huge_pages();
  facts.huge.free = 3;
  EXPECT_EQ(named(judge_rdma(facts), "huge pages").fix, "sysctl -w vm.nr_hugepages=67");
  facts.huge.held = 32;
  EXPECT_EQ(named(judge_rdma(facts), "huge pages").given, verdict::ok)
      << "the pool of a running node is not missing";
}

TEST(doctor, huge_pages_need_a_mount_of_their_size) {
  auto facts = host_with_huge_pages();
  EXPECT_EQ(named(judge_rdma(facts), "hugetlbfs").given, verdict::ok);
  facts.huge.mounted = false;
  auto huge = named(judge_rdma(facts), "hugetlbfs");
  EXPECT_EQ(huge.given, verdict::fail);
  EXPECT_TRUE(contains(huge.fix, "pagesize=2M")) << huge.fix;
  facts.huge = {};
  EXPECT_EQ(named(judge_rdma(facts), "huge pages").given, verdict::fail);
}

TEST(doctor, whatever_is_warned_of_or_fails_says_how_to_mend_it) {
  for (auto plane : {rdma::plane_mode::automatic, rdma::plane_mode::verbs}) {
    for (const char* state : {"unknown", "down", "initializing", "active"}) {
      for (auto layer : {rdma::verbs::link_layer::ethernet, rdma::verbs::link_layer::infiniband}) {
        auto facts = host_with_huge_pages();
        facts.wanted.mode = plane;
        facts.huge = {};
        facts.memlock_limit_bytes = 1;
        facts.ports[0].report.layer = layer;
        facts.ports[0].report.state = state;
        facts.ports[0].report.usable = false;
        facts.ports[1].report.can.mtu_bytes = 256;
        for (const auto& one : judge_rdma(facts).checks) {
          EXPECT_EQ(one.fix.empty(), one.given <= verdict::info) << one.name << ": " << one.found;
          EXPECT_NE(one.id, "") << one.name;
        }
      }
    }
  }
}

TEST(doctor, the_table_has_the_fix_below_what_it_mends) {
  std::vector<check_group> groups = {
      {"rdma", {{"memlock", verdict::fail, "too small", "ulimit -l unlimited"}}},
      {"other", {{"thing", verdict::ok, "there", ""}}}};
  EXPECT_EQ(to_text(groups, false), "rdma     VERDICT  FOUND\n"
                                    "memlock  fail     too small\n"
                                    "                  fix: ulimit -l unlimited\n"
                                    "\n"
                                    "other  VERDICT  FOUND\n"
                                    "thing  ok       there\n");
}

TEST(doctor, json_has_every_check_and_the_worst_verdict) {
  std::vector<check_group> groups = {
      {"rdma", {{"gid", verdict::warn, "link-local", "do this", "x-id"}}},
      {"other", {{"thing", verdict::ok, "there", ""}}}};
  auto data = to_json(groups);
  EXPECT_EQ(data["verdict"], "warn");
  EXPECT_EQ(data["groups"][0]["name"], "rdma");
  EXPECT_EQ(data["groups"][0]["checks"][0]["fix"], "do this");
  EXPECT_EQ(data["groups"][0]["checks"][0]["id"], "x-id");
  EXPECT_EQ(data["groups"][1]["checks"][0]["verdict"], "ok");
}

} // namespace peercache::cli::doctor_test
