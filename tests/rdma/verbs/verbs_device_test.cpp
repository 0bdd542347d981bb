#include "rdma/verbs/device.hpp"

#include "tests/support/fake_verbs/fake_verbs.hpp"
#include "tests/verbs/rail_pair.hpp"

#include <cerrno>
#include <gmock/gmock.h>
#include <poll.h>
#include <thread>

namespace peercache::rdma::verbs::verbs_device_test {
namespace {

using namespace peercache::tests;
using testing::AllOf;
using testing::HasSubstr;

class verbs_device : public testing::Test {
protected:
  fake_fabric fabric;

  port_report report(fake_device device, const port_choice& choice = {}) {
    fabric.add(std::move(device));
    device_listing listing = list_ports(choice);
    EXPECT_EQ(listing.ports.size(), 1U);
    return listing.ports.at(0);
  }

  /// Returns why this device cannot be used, from the report of its port.
  std::string refusal(fake_device device, const port_choice& choice = {}) {
    port_report found = report(std::move(device), choice);
    EXPECT_FALSE(found.usable);
    return found.why_not;
  }
};

fake_device with_port(const std::function<void(fake_port&)>& change) {
  fake_device device = roce_device("mlx5_0", 1);
  change(device.ports[0]);
  return device;
}

bool is_readable(int fd) {
  pollfd waiting{fd, POLLIN, 0};
  return ::poll(&waiting, 1, 0) == 1;
}

TEST_F(verbs_device, a_good_port_is_usable_and_says_what_it_can) {
  fake_device device = roce_device("mlx5_0", 7);
  device.numa_node = 1;
  device.send_depth_max = 512;
  device.completions_max = 2048;
  device.sge_max = 30;
  device.sge_of_read_max = 12;
  device.initiator_depth = 16;
  device.responder_depth = 8;
  device.region_bytes_max = 1ULL << 40;
  device.ports[0].mtu_bytes = 1024;
  device.ports[0].message_bytes_max = 1 << 30;
  const port_report found = report(device);
  EXPECT_TRUE(found.usable) << found.why_not;
  EXPECT_EQ(found.device, "mlx5_0");
  EXPECT_EQ(found.port, 1);
  EXPECT_EQ(found.state, "active");
  EXPECT_EQ(found.layer, link_layer::ethernet);
  EXPECT_EQ(found.numa_node, 1);
  EXPECT_EQ(found.bits_per_second, 200'000'000'000U);
  EXPECT_EQ(found.can.send_depth, 512U);
  EXPECT_EQ(found.can.completions, 2048U);
  EXPECT_EQ(found.can.sge, 12U);
  EXPECT_EQ(found.can.initiator_depth, 16U);
  EXPECT_EQ(found.can.responder_depth, 8U);
  EXPECT_EQ(found.can.mtu_bytes, 1024U);
  EXPECT_EQ(found.can.message_bytes, 1U << 30);
  EXPECT_EQ(found.can.region_bytes, 1ULL << 40);
}

TEST_F(verbs_device, a_provider_that_does_not_say_how_many_pieces_a_read_has_means_any_request) {
  fake_device device = roce_device("mlx5_0", 1);
  device.sge_max = 30;
  device.sge_of_read_max = 0;
  EXPECT_EQ(report(device).can.sge, 30U);
}

TEST_F(verbs_device, limits_beyond_what_the_handshake_carries_are_cut) {
  fake_device device = roce_device("mlx5_0", 1);
  device.initiator_depth = 4096;
  device.responder_depth = 256;
  const port_report found = report(device);
  EXPECT_EQ(found.can.initiator_depth, 255U);
  EXPECT_EQ(found.can.responder_depth, 255U);
}

TEST_F(verbs_device, rates_are_lanes_times_speed) {
  struct rate {
    std::uint8_t width, speed;
    std::uint64_t bits_per_second;
  };
  const std::vector<rate> table = {{2, 128, 400'000'000'000},
                                   {2, 32, 100'000'000'000},
                                   {1, 32, 25'000'000'000},
                                   {4, 64, 400'000'000'000},
                                   {16, 1, 5'000'000'000},
                                   {3, 64, 0},
                                   {2, 3, 0}};
  for (std::size_t index = 0; index < table.size(); ++index) {
    fake_device device = roce_device("rate" + std::to_string(index), 1);
    device.ports[0].width = table[index].width;
    device.ports[0].speed = table[index].speed;
    fabric.add(device);
    EXPECT_EQ(list_ports().ports.at(index).bits_per_second, table[index].bits_per_second) << index;
  }
}

TEST_F(verbs_device, without_devices_the_listing_says_what_to_load) {
  const device_listing listing = list_ports();
  EXPECT_TRUE(listing.ports.empty());
  EXPECT_THAT(listing.why_none, AllOf(HasSubstr("no RDMA device"), HasSubstr("rdma_rxe"),
                                      HasSubstr("ibverbs-providers")));
}

TEST_F(verbs_device, a_kernel_without_verbs_is_no_failure) {
  fabric.add(roce_device("mlx5_0", 1));
  fabric.fail_listing(ENOSYS);
  const device_listing listing = list_ports();
  EXPECT_TRUE(listing.ports.empty());
  EXPECT_THAT(listing.why_none, HasSubstr("modprobe ib_uverbs"));
}

TEST_F(verbs_device, a_listing_that_is_forbidden_says_so) {
  fabric.fail_listing(EPERM);
  EXPECT_THAT(list_ports().why_none,
              AllOf(HasSubstr("Operation not permitted"), HasSubstr("container")));
}

TEST_F(verbs_device, one_device_that_cannot_be_opened_hides_no_other) {
  fake_device closed = roce_device("mlx5_0", 1);
  closed.open_error = EACCES;
  fabric.add(closed);
  fabric.add(roce_device("mlx5_1", 2));
  const device_listing listing = list_ports();
  ASSERT_EQ(listing.ports.size(), 2U);
  EXPECT_FALSE(listing.ports[0].usable);
  EXPECT_THAT(listing.ports[0].why_not,
              AllOf(HasSubstr("Permission denied"), HasSubstr("/dev/infiniband/uverbs0")));
  EXPECT_TRUE(listing.ports[1].usable);
}

TEST_F(verbs_device, refuses_a_port_that_is_down) {
  EXPECT_THAT(refusal(with_port([](fake_port& port) { port.state = IBV_PORT_DOWN; })),
              AllOf(HasSubstr("is down"), HasSubstr("ip link set")));
}

TEST_F(verbs_device, refuses_an_infiniband_port_that_no_subnet_manager_has_seen) {
  fake_device device = infiniband_device("mlx5_0", 3);
  device.ports[0].state = IBV_PORT_INIT;
  EXPECT_THAT(refusal(device), HasSubstr("opensm"));
}

TEST_F(verbs_device, refuses_an_infiniband_port_without_lid) {
  EXPECT_THAT(refusal(infiniband_device("mlx5_0", 0)),
              AllOf(HasSubstr("LID"), HasSubstr("opensm")));
}

TEST_F(verbs_device, refuses_roce_v1_alone) {
  EXPECT_THAT(refusal(with_port([](fake_port& port) {
                port.gids = {ipv6_gid(0xfe80, 1, IBV_GID_TYPE_ROCE_V1),
                             ipv4_gid(0, 1, IBV_GID_TYPE_ROCE_V1)};
              })),
              AllOf(HasSubstr("RoCE v1"), HasSubstr("cma_roce_mode")));
}

TEST_F(verbs_device, refuses_a_port_without_gid) {
  EXPECT_THAT(refusal(with_port([](fake_port& port) { port.gids = {fake_gid{}}; })),
              AllOf(HasSubstr("no GID"), HasSubstr("IP address")));
}

TEST_F(verbs_device, refuses_iwarp_and_devices_of_other_kinds) {
  fake_device device = roce_device("cxgb4_0", 1);
  device.transport = IBV_TRANSPORT_IWARP;
  EXPECT_THAT(refusal(device), HasSubstr("iWARP"));
  device = roce_device("efa_0", 1);
  device.transport = IBV_TRANSPORT_UNSPECIFIED;
  fabric.add(device);
  EXPECT_THAT(list_ports().ports.at(1).why_not, HasSubstr("no reliable connections"));
}

TEST_F(verbs_device, refuses_a_device_that_answers_no_reads) {
  fake_device device = roce_device("mlx5_0", 1);
  device.responder_depth = 0;
  EXPECT_THAT(refusal(device), HasSubstr("max_qp_rd_atom"));
}

TEST_F(verbs_device, refuses_a_limit_of_nothing) {
  EXPECT_THAT(refusal(with_port([](fake_port& port) { port.message_bytes_max = 0; })),
              HasSubstr("max_msg_sz"));
}

TEST_F(verbs_device, refuses_what_cannot_be_queried) {
  fabric.fail(fake_call::query_port, EIO);
  EXPECT_THAT(refusal(roce_device("mlx5_0", 1)), HasSubstr("cannot be queried"));
  fabric.fail(fake_call::query_device, EIO);
  EXPECT_THAT(list_ports().ports.at(0).why_not, HasSubstr("cannot be queried"));
}

TEST_F(verbs_device, takes_the_gid_that_was_asked_for) {
  const port_report found = report(roce_device("mlx5_0", 1), {.gid_index = 1});
  EXPECT_TRUE(found.usable) << found.why_not;
  EXPECT_EQ(found.gid_index, 1);
  EXPECT_EQ(to_string(found.gid), "fe80::1");
}

TEST_F(verbs_device, refuses_to_be_asked_for_a_gid_that_is_empty_or_of_roce_v1) {
  EXPECT_THAT(refusal(roce_device("mlx5_0", 1), {.gid_index = 9}),
              AllOf(HasSubstr("GID 9"), HasSubstr("empty")));
  EXPECT_THAT(list_ports({.gid_index = 2}).ports.at(0).why_not,
              AllOf(HasSubstr("GID 2"), HasSubstr("RoCE v1")));
}

TEST_F(verbs_device, the_kernel_says_the_type_of_a_gid_when_the_provider_does_not) {
  fake_device device = roce_device("mlx5_0", 5);
  device.has_gid_types = false;
  const port_report found = report(device);
  EXPECT_TRUE(found.usable) << found.why_not;
  EXPECT_EQ(found.gid_index, 3);
  EXPECT_EQ(to_string(found.gid), "::ffff:10.0.0.5");
}

struct gid_case {
  const char* name;
  link_layer layer;
  std::vector<gid_entry> table;
  std::int32_t chosen;
};

gid_entry entry(std::int32_t index, const fake_gid& gid) {
  using kind = gid_entry::kind;
  const kind type = gid.type == IBV_GID_TYPE_ROCE_V2   ? kind::roce_v2
                    : gid.type == IBV_GID_TYPE_ROCE_V1 ? kind::roce_v1
                                                       : kind::infiniband;
  return {index, gid.gid, type};
}

TEST(verbs_gid, the_one_that_reaches_most_is_chosen) {
  const fake_gid local = ipv6_gid(0xfe80, 1), global = ipv6_gid(0x2001, 1), mapped = ipv4_gid(0, 1);
  const fake_gid old_mapped = ipv4_gid(0, 1, IBV_GID_TYPE_ROCE_V1);
  const fake_gid subnet = ipv6_gid(0xfe80, 1, IBV_GID_TYPE_IB);
  const auto ethernet = link_layer::ethernet, infiniband = link_layer::infiniband;
  const std::vector<gid_case> table = {
      {"nothing", ethernet, {}, -1},
      {"only v1", ethernet, {entry(0, old_mapped)}, -1},
      {"v1 before link-local", ethernet, {entry(0, old_mapped), entry(1, local)}, 1},
      {"global over link-local", ethernet, {entry(0, local), entry(1, global)}, 1},
      {"mapped over global", ethernet, {entry(0, global), entry(1, local), entry(4, mapped)}, 4},
      {"first of equals", ethernet, {entry(2, mapped), entry(3, ipv4_gid(0, 2))}, 2},
      {"first of InfiniBand", infiniband, {entry(0, subnet), entry(1, subnet)}, 0},
      {"InfiniBand without", infiniband, {}, -1},
  };
  for (const gid_case& each : table)
    EXPECT_EQ(choose_gid(each.layer, each.table), each.chosen) << each.name;
}

TEST(verbs_gid, an_address_prints_as_other_tools_print_it) {
  EXPECT_EQ(to_string(ipv4_gid(3, 4).gid), "::ffff:10.0.3.4");
  EXPECT_EQ(to_string(ipv6_gid(0xfe80, 1).gid), "fe80::1");
  EXPECT_TRUE(is_ipv4_mapped(ipv4_gid(3, 4).gid));
  EXPECT_FALSE(is_ipv4_mapped(ipv6_gid(0xfe80, 1).gid));
}

TEST_F(verbs_device, opens_and_leaves_nothing_behind) {
  fabric.add(roce_device("mlx5_0", 1));
  {
    const auto opened = must(device::open("mlx5_0", {}));
    EXPECT_EQ(opened->port().port, 1);
    EXPECT_EQ(fabric.objects().contexts, 1U);
    EXPECT_EQ(fabric.objects().domains, 1U);
  }
  EXPECT_TRUE(fabric.objects().none());
  EXPECT_THAT(fabric.misuse(), testing::IsEmpty());
}

TEST_F(verbs_device, opens_the_first_port_that_can_be_used) {
  fake_device device = roce_device("mlx5_0", 1);
  device.ports.push_back(roce_device("", 2).ports[0]);
  device.ports[0].state = IBV_PORT_DOWN;
  fabric.add(device);
  EXPECT_EQ(must(device::open("mlx5_0", {}))->port().port, 2);
  EXPECT_THAT(device::open("mlx5_0", {.port = 1}).error().message,
              HasSubstr("port 1: the port is"));
  EXPECT_THAT(device::open("mlx5_0", {.port = 3}).error().message,
              AllOf(HasSubstr("no port 3"), HasSubstr("1..2")));
}

TEST_F(verbs_device, a_name_that_is_not_there_is_answered_with_those_that_are) {
  EXPECT_THAT(device::open("mlx5_9", {}).error().message,
              HasSubstr("none: there is no RDMA device"));
  fabric.add(roce_device("mlx5_0", 1));
  fabric.add(roce_device("mlx5_1", 2));
  const auto refused = device::open("mlx5_9", {});
  EXPECT_EQ(refused.error().code, errc::not_found);
  EXPECT_THAT(refused.error().message, AllOf(HasSubstr("'mlx5_9'"), HasSubstr("mlx5_0, mlx5_1")));
}

TEST_F(verbs_device, a_device_that_gives_no_domain_is_closed_again) {
  fabric.add(roce_device("mlx5_0", 1));
  fabric.fail(fake_call::alloc_pd, ENOMEM);
  EXPECT_EQ(device::open("mlx5_0", {}).error().code, errc::out_of_memory);
  EXPECT_TRUE(fabric.objects().none());
}

TEST_F(verbs_device, tells_of_its_port_going_and_coming) {
  fabric.add(roce_device("mlx5_0", 1));
  const auto opened = must(device::open("mlx5_0", {}));
  EXPECT_FALSE(is_readable(opened->async_fd()));
  EXPECT_EQ(opened->next_event().name, "");

  fabric.set_port_state("mlx5_0", 1, IBV_PORT_DOWN);
  EXPECT_TRUE(is_readable(opened->async_fd()));
  const auto down = opened->next_event();
  EXPECT_EQ(down.name, "port down");
  EXPECT_TRUE(down.fatal);
  EXPECT_FALSE(is_readable(opened->async_fd()));

  fabric.set_port_state("mlx5_0", 1, IBV_PORT_ACTIVE);
  const auto back = opened->next_event();
  EXPECT_EQ(back.name, "port active");
  EXPECT_TRUE(back.port_is_back);
  EXPECT_FALSE(back.fatal);
}

TEST_F(verbs_device, the_loss_of_another_port_is_not_fatal) {
  fake_device device = roce_device("mlx5_0", 1);
  device.ports.push_back(roce_device("", 2).ports[0]);
  fabric.add(device);
  const auto opened = must(device::open("mlx5_0", {.port = 1}));
  fabric.set_port_state("mlx5_0", 2, IBV_PORT_DOWN);
  const auto down = opened->next_event();
  EXPECT_EQ(down.name, "port down");
  EXPECT_FALSE(down.fatal);
}

TEST_F(verbs_device, the_loss_of_the_device_is_fatal) {
  fabric.add(roce_device("mlx5_0", 1));
  const auto opened = must(device::open("mlx5_0", {}));
  fabric.break_device("mlx5_0");
  const auto event = opened->next_event();
  EXPECT_EQ(event.name, "device failed");
  EXPECT_TRUE(event.fatal);
}

TEST_F(verbs_device, belongs_to_the_thread_that_took_it_last) {
  fabric.add(roce_device("mlx5_0", 1));
  const auto opened = must(device::open("mlx5_0", {}));
  opened->assert_owned();
  auto channel = std::make_unique<completion_channel>(must(completion_channel::create(*opened)));
  auto queue =
      std::make_unique<completion_queue>(must(completion_queue::create(*opened, 4, nullptr)));
  std::thread([&] { opened->own(); }).join();
  EXPECT_DEATH(queue.reset(), "owner_");
  EXPECT_DEATH(channel.reset(), "owner_");
  EXPECT_DEATH(opened->assert_owned(), "owner_");
  EXPECT_DEATH((void)completion_queue::create(*opened, 4, nullptr), "owner_");
  EXPECT_DEATH((void)completion_channel::create(*opened), "owner_");
  opened->own();
  opened->assert_owned();
}

} // namespace
} // namespace peercache::rdma::verbs::verbs_device_test
