#include "rdma/verbs/queue_pair.hpp"

#include "tests/support/fake_verbs/fake_verbs.hpp"
#include "tests/verbs/rail_pair.hpp"

#include <cerrno>
#include <gmock/gmock.h>
#include <poll.h>
#include <thread>

namespace peercache::rdma::verbs::verbs_queue_pair_test {
namespace {

using namespace peercache::tests;
using testing::AllOf;
using testing::HasSubstr;

/// Tests with two fake devices on one fabric, a pool on one device and a destination on the other.
class verbs_queue_pair : public testing::Test {
protected:
  void open(fake_device reads_on, fake_device serves_on) {
    const std::string reader_name = reads_on.name, server_name = serves_on.name;
    fabric.add(std::move(reads_on));
    fabric.add(std::move(serves_on));
    reader = must(device::open(reader_name, {}));
    server = must(device::open(server_name, {}));
    pool = must(memory_region::register_memory(*server, pool_bytes, region_use::remote_read));
    target = must(memory_region::register_memory(*reader, target_bytes, region_use::local_write));
  }
  void open() { open(roce_device("mlx5_0", 1), roce_device("mlx5_1", 2)); }

  ibv_sge piece(std::size_t offset, std::size_t bytes) {
    return piece_of(target, std::span(target_bytes).subspan(offset, bytes));
  }
  std::optional<ibv_wc_status> run(rail_pair& pair, ibv_wr_opcode what, std::uint64_t offset,
                                   std::size_t bytes) {
    const ibv_sge whole = piece(0, bytes);
    return pair.run(what, {&whole, 1}, pool.address() + offset, pool.remote_key());
  }
  fake_queue_pair seen(const queue_pair& pair) { return *fabric.queue_pair(pair.number()); }

  fake_fabric fabric;
  buffer pool_bytes = random_bytes(256 << 10, 1);
  buffer target_bytes = random_bytes(256 << 10, 2);
  std::unique_ptr<device> reader;
  std::unique_ptr<device> server;
  memory_region pool;
  memory_region target;
};

path some_path(const device& on) {
  return {.remote_queue_pair = 5, .remote_gid = on.port().gid, .remote_lid = 9};
}

TEST_F(verbs_queue_pair, a_read_brings_the_bytes_of_the_pool) {
  open();
  rail_pair pair(*reader, *server);
  EXPECT_EQ(run(pair, IBV_WR_RDMA_READ, 1000, 64 << 10), IBV_WC_SUCCESS);
  EXPECT_TRUE(std::equal(target_bytes.begin(), target_bytes.begin() + (64 << 10),
                         pool_bytes.begin() + 1000));
  EXPECT_TRUE(std::equal(target_bytes.begin() + (64 << 10), target_bytes.end(),
                         random_bytes(256 << 10, 2).begin() + (64 << 10)));
}

TEST_F(verbs_queue_pair, a_read_is_scattered_over_its_pieces) {
  open();
  rail_pair pair(*reader, *server);
  const std::vector<ibv_sge> pieces = {piece(500, 1), piece(4096, 1000), piece(0, 99)};
  EXPECT_EQ(pair.run(IBV_WR_RDMA_READ, pieces, pool.address(), pool.remote_key()), IBV_WC_SUCCESS);
  EXPECT_EQ(target_bytes[500], pool_bytes[0]);
  EXPECT_TRUE(std::equal(&target_bytes[4096], &target_bytes[5096], &pool_bytes[1]));
  EXPECT_TRUE(std::equal(&target_bytes[0], &target_bytes[99], &pool_bytes[1001]));
}

TEST_F(verbs_queue_pair, both_ends_get_the_rights_of_their_use_and_no_other) {
  open();
  rail_pair pair(*reader, *server);
  EXPECT_EQ(seen(pair.reader.pair).attributes.qp_access_flags, 0U);
  EXPECT_EQ(seen(pair.server.pair).attributes.qp_access_flags, unsigned{IBV_ACCESS_REMOTE_READ});
}

TEST_F(verbs_queue_pair, writes_and_atomics_are_refused_and_change_nothing) {
  open();
  const buffer before = pool_bytes;
  for (const auto what :
       {IBV_WR_RDMA_WRITE, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_CMP_AND_SWP}) {
    rail_pair pair(*reader, *server);
    const auto status = run(pair, what, 0, 8);
    EXPECT_TRUE(status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_INV_REQ_ERR) << what;
    EXPECT_EQ(seen(pair.reader.pair).state, IBV_QPS_ERR);
    EXPECT_EQ(seen(pair.server.pair).state, IBV_QPS_ERR);
  }
  EXPECT_EQ(pool_bytes, before);
}

TEST_F(verbs_queue_pair, the_readers_end_answers_nothing) {
  open();
  const auto own_pool =
      must(memory_region::register_memory(*reader, pool_bytes, region_use::remote_read));
  const auto own_target =
      must(memory_region::register_memory(*server, target_bytes, region_use::local_write));
  rail_pair pair(*reader, *server);
  ibv_sge piece = piece_of(own_target, target_bytes);
  ibv_send_wr request{.sg_list = &piece, .num_sge = 1, .opcode = IBV_WR_RDMA_READ};
  request.wr.rdma = {own_pool.address(), own_pool.remote_key()};
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(pair.server.pair.post(&request, &bad), 0);
  ibv_wc done{};
  ASSERT_EQ(pair.server.completions.poll({&done, 1}), 1);
  EXPECT_NE(done.status, IBV_WC_SUCCESS);
  EXPECT_EQ(target_bytes, random_bytes(256 << 10, 2));
}

TEST_F(verbs_queue_pair, a_read_past_the_end_of_the_region_is_refused) {
  open();
  const std::vector<std::uint64_t> outside = {pool_bytes.size() - 99, pool_bytes.size(),
                                              ~0ULL - 50};
  for (const std::uint64_t offset : outside) {
    rail_pair pair(*reader, *server);
    EXPECT_EQ(run(pair, IBV_WR_RDMA_READ, offset, 100), IBV_WC_REM_ACCESS_ERR) << offset;
  }
  rail_pair pair(*reader, *server);
  EXPECT_EQ(run(pair, IBV_WR_RDMA_READ, pool_bytes.size() - 100, 100), IBV_WC_SUCCESS);
}

TEST_F(verbs_queue_pair, the_server_learns_which_queue_pair_was_abused) {
  open();
  rail_pair pair(*reader, *server);
  EXPECT_EQ(run(pair, IBV_WR_RDMA_READ, pool_bytes.size(), 1), IBV_WC_REM_ACCESS_ERR);
  const auto event = server->next_event();
  EXPECT_EQ(event.name, "forbidden access to a queue pair");
  EXPECT_EQ(event.queue_pair, pair.server.pair.number());
  EXPECT_FALSE(event.fatal);
}

TEST_F(verbs_queue_pair, what_was_agreed_on_reaches_the_provider) {
  open();
  auto completions = must(completion_queue::create(*reader, 16, nullptr));
  auto pair = must(queue_pair::create(*reader, completions, queue_pair_use::reader, 12, 7));
  EXPECT_EQ(seen(pair).state, IBV_QPS_INIT);
  EXPECT_EQ(seen(pair).granted.max_send_wr, 12U);
  EXPECT_EQ(seen(pair).granted.max_send_sge, 7U);
  const path to{.remote_queue_pair = 0xabcdef,
                .remote_psn = 0x123456,
                .own_psn = 0x654321,
                .remote_gid = server->port().gid,
                .mtu_bytes = 2048,
                .initiator_depth = 9,
                .responder_depth = 4};
  const path_options options{.traffic_class = 106,
                             .service_level = 3,
                             .hop_limit = 7,
                             .timeout = 12,
                             .retries = 6,
                             .rnr_retries = 2};
  must(pair.connect(to, options));
  const ibv_qp_attr set = seen(pair).attributes;
  EXPECT_EQ(seen(pair).state, IBV_QPS_RTS);
  EXPECT_EQ(set.dest_qp_num, 0xabcdefU);
  EXPECT_EQ(set.rq_psn, 0x123456U);
  EXPECT_EQ(set.sq_psn, 0x654321U);
  EXPECT_EQ(set.path_mtu, IBV_MTU_2048);
  EXPECT_EQ(set.max_rd_atomic, 9);
  EXPECT_EQ(set.max_dest_rd_atomic, 4);
  EXPECT_EQ(set.timeout, 12);
  EXPECT_EQ(set.retry_cnt, 6);
  EXPECT_EQ(set.rnr_retry, 2);
  EXPECT_EQ(set.ah_attr.sl, 3);
  EXPECT_EQ(set.ah_attr.is_global, 1);
  EXPECT_EQ(set.ah_attr.grh.hop_limit, 7);
  EXPECT_EQ(set.ah_attr.grh.traffic_class, 106);
  EXPECT_EQ(set.ah_attr.grh.sgid_index, 3);
  EXPECT_EQ(std::memcmp(set.ah_attr.grh.dgid.raw, to.remote_gid.data(), 16), 0);
}

TEST_F(verbs_queue_pair, infiniband_goes_by_lid_and_by_gid_only_into_another_subnet) {
  fake_device far = infiniband_device("mlx5_1", 2);
  far.ports[0].gids = {ipv6_gid(0xfe81, 2, IBV_GID_TYPE_IB)};
  open(infiniband_device("mlx5_0", 1), far);
  fabric.add(infiniband_device("mlx5_2", 3));
  const auto near_server = must(device::open("mlx5_2", {}));
  rail_pair near_pair(*reader, *near_server);
  EXPECT_EQ(seen(near_pair.reader.pair).attributes.ah_attr.is_global, 0);
  EXPECT_EQ(seen(near_pair.reader.pair).attributes.ah_attr.dlid, 3);
  rail_pair far_pair(*reader, *server);
  EXPECT_EQ(seen(far_pair.reader.pair).attributes.ah_attr.is_global, 1);
  EXPECT_EQ(run(far_pair, IBV_WR_RDMA_READ, 0, 1000), IBV_WC_SUCCESS);
}

TEST_F(verbs_queue_pair, a_path_that_makes_no_sense_is_refused_before_the_device_sees_it) {
  open();
  struct wrong {
    const char* name;
    std::function<void(path&)> change;
  };
  const std::vector<wrong> table = {
      {"no number", [](path& to) { to.remote_queue_pair = 0; }},
      {"long number", [](path& to) { to.remote_queue_pair = 1 << 24; }},
      {"long remote psn", [](path& to) { to.remote_psn = 1 << 24; }},
      {"long own psn", [](path& to) { to.own_psn = 1 << 24; }},
      {"odd mtu", [](path& to) { to.mtu_bytes = 1500; }},
      {"no mtu", [](path& to) { to.mtu_bytes = 0; }},
      {"small mtu", [](path& to) { to.mtu_bytes = 128; }},
      {"large mtu", [](path& to) { to.mtu_bytes = 8192; }},
      {"too many reads", [](path& to) { to.initiator_depth = 17; }},
      {"too many answers", [](path& to) { to.responder_depth = 17; }},
      {"no gid", [](path& to) { to.remote_gid = {}; }},
  };
  auto completions = must(completion_queue::create(*reader, 16, nullptr));
  for (const wrong& each : table) {
    auto pair = must(queue_pair::create(*reader, completions, queue_pair_use::reader, 4, 1));
    path to = some_path(*server);
    each.change(to);
    const auto refused = pair.connect(to, {});
    ASSERT_FALSE(refused) << each.name;
    EXPECT_EQ(refused.error().code, errc::invalid_argument) << each.name;
    EXPECT_EQ(seen(pair).state, IBV_QPS_INIT) << each.name;
  }
  auto pair = must(queue_pair::create(*reader, completions, queue_pair_use::reader, 4, 1));
  must(pair.connect(some_path(*server), {}));
}

TEST_F(verbs_queue_pair, an_mtu_beyond_the_ports_is_refused) {
  fake_device small = roce_device("mlx5_0", 1);
  small.ports[0].mtu_bytes = 1024;
  open(small, roce_device("mlx5_1", 2));
  auto completions = must(completion_queue::create(*reader, 16, nullptr));
  auto pair = must(queue_pair::create(*reader, completions, queue_pair_use::reader, 4, 1));
  path to = some_path(*server);
  to.mtu_bytes = 2048;
  EXPECT_THAT(pair.connect(to, {}).error().message, HasSubstr("more than the port's 1024"));
}

TEST_F(verbs_queue_pair, what_the_device_refuses_is_said_and_leaves_nothing) {
  open();
  auto completions = must(completion_queue::create(*reader, 16, nullptr));
  fabric.fail(fake_call::create_queue_pair, ENOMEM);
  const auto none = queue_pair::create(*reader, completions, queue_pair_use::reader, 4, 1);
  EXPECT_THAT(none.error().message, AllOf(HasSubstr("mlx5_0"), HasSubstr("ulimit -l")));
  fabric.fail(fake_call::to_init, EINVAL);
  EXPECT_FALSE(queue_pair::create(*reader, completions, queue_pair_use::reader, 4, 1));
  EXPECT_EQ(fabric.objects().queue_pairs, 0U);

  auto pair = must(queue_pair::create(*reader, completions, queue_pair_use::reader, 4, 1));
  fabric.fail(fake_call::to_ready_to_receive, ENETUNREACH);
  EXPECT_THAT(pair.connect(some_path(*server), {}).error().message,
              AllOf(HasSubstr("::ffff:10.0.0.2"), HasSubstr("route from ::ffff:10.0.0.1")));
  fabric.fail(fake_call::to_ready_to_send, EINVAL);
  EXPECT_THAT(pair.connect(some_path(*server), {}).error().message, HasSubstr("ready to send"));
}

TEST_F(verbs_queue_pair, more_than_the_device_has_is_refused) {
  fake_device small = roce_device("mlx5_0", 1);
  small.send_depth_max = 8;
  small.sge_max = 2;
  small.completions_max = 16;
  open(small, roce_device("mlx5_1", 2));
  EXPECT_THAT(completion_queue::create(*reader, 17, nullptr).error().message,
              HasSubstr("at most 16"));
  auto completions = must(completion_queue::create(*reader, 16, nullptr));
  EXPECT_FALSE(queue_pair::create(*reader, completions, queue_pair_use::reader, 9, 1));
  EXPECT_FALSE(queue_pair::create(*reader, completions, queue_pair_use::reader, 8, 3));
  EXPECT_TRUE(queue_pair::create(*reader, completions, queue_pair_use::reader, 8, 2));
}

TEST_F(verbs_queue_pair, unsound_options_connect_nothing) {
  open();
  auto completions = must(completion_queue::create(*reader, 16, nullptr));
  auto pair = must(queue_pair::create(*reader, completions, queue_pair_use::reader, 4, 1));
  EXPECT_FALSE(pair.connect(some_path(*server), {.retries = 7}));
  EXPECT_EQ(seen(pair).state, IBV_QPS_INIT);
}

TEST_F(verbs_queue_pair, the_expected_packet_number_moves_when_the_other_end_reads) {
  open();
  rail_pair pair(*reader, *server);
  const auto before = pair.server.pair.expected_psn();
  ASSERT_TRUE(before);
  EXPECT_EQ(pair.server.pair.expected_psn(), before);
  EXPECT_EQ(run(pair, IBV_WR_RDMA_READ, 0, 10'000), IBV_WC_SUCCESS);
  EXPECT_EQ(pair.server.pair.expected_psn(), (*before + 3) & 0xffffffU);
}

TEST_F(verbs_queue_pair, no_byte_arrives_after_it_was_destroyed) {
  open();
  fabric.set_delay(std::chrono::hours(1), std::chrono::hours(1));
  auto pair = std::make_unique<rail_pair>(*reader, *server);
  const ibv_sge whole = piece(0, 1000);
  pair->post(IBV_WR_RDMA_READ, {&whole, 1}, pool.address(), pool.remote_key());
  pair->reader.pair.reset();
  EXPECT_FALSE(pair->reader.pair);
  fabric.advance(std::chrono::hours(2));
  EXPECT_EQ(target_bytes, random_bytes(256 << 10, 2));

  // As a control, the same READ without destroying the queue pair: its bytes must arrive.
  pair = std::make_unique<rail_pair>(*reader, *server);
  pair->post(IBV_WR_RDMA_READ, {&whole, 1}, pool.address(), pool.remote_key());
  fabric.advance(std::chrono::hours(2));
  EXPECT_TRUE(std::equal(&target_bytes[0], &target_bytes[1000], pool_bytes.begin()));
}

TEST_F(verbs_queue_pair, objects_end_in_an_order_that_the_device_accepts) {
  open();
  {
    auto channel = must(completion_channel::create(*reader));
    auto completions = must(completion_queue::create(*reader, 16, &channel));
    auto first = must(queue_pair::create(*reader, completions, queue_pair_use::reader, 4, 1));
    auto second = must(queue_pair::create(*reader, completions, queue_pair_use::reader, 4, 1));
    auto moved = std::move(first);
    second = std::move(moved);
    EXPECT_EQ(fabric.objects().queue_pairs, 2U);
  }
  EXPECT_EQ(fabric.objects().queue_pairs, 0U);
  EXPECT_EQ(fabric.objects().completion_queues, 0U);
  EXPECT_EQ(fabric.objects().channels, 0U);
  pool.reset();
  target.reset();
  reader.reset();
  server.reset();
  EXPECT_TRUE(fabric.objects().none());
  EXPECT_THAT(fabric.misuse(), testing::IsEmpty());
}

TEST_F(verbs_queue_pair, ending_them_in_the_wrong_order_is_our_fault) {
  open();
  auto completions =
      std::make_unique<completion_queue>(must(completion_queue::create(*reader, 16, nullptr)));
  auto pair = must(queue_pair::create(*reader, *completions, queue_pair_use::reader, 4, 1));
  EXPECT_DEATH(completions.reset(), "ibv_destroy_cq");
  EXPECT_DEATH(reader.reset(), "ibv_dealloc_pd");
}

TEST_F(verbs_queue_pair, another_thread_may_neither_make_nor_connect_nor_end_one) {
  open();
  auto completions = must(completion_queue::create(*reader, 16, nullptr));
  auto pair = must(queue_pair::create(*reader, completions, queue_pair_use::reader, 4, 1));
  std::thread([&] { reader->own(); }).join();
  EXPECT_DEATH((void)queue_pair::create(*reader, completions, queue_pair_use::reader, 4, 1),
               "owner_");
  EXPECT_DEATH((void)pair.connect(some_path(*server), {}), "owner_");
  EXPECT_DEATH(pair.reset(), "owner_");
  reader->own();
}

TEST_F(verbs_queue_pair, an_armed_queue_wakes_who_sleeps_on_its_channel) {
  open();
  auto channel = must(completion_channel::create(*reader));
  rail_pair pair(*reader, *server, {}, &channel);
  const ibv_sge whole = piece(0, 1000);
  ibv_wc done{};
  pollfd sleeper{channel.fd(), POLLIN, 0};
  const auto read = [&] {
    pair.post(IBV_WR_RDMA_READ, {&whole, 1}, pool.address(), pool.remote_key());
  };

  read(); // Not armed: its completion makes no event.
  EXPECT_EQ(::poll(&sleeper, 1, 0), 0);
  EXPECT_TRUE(pair.reader.completions.arm());
  // A completion from before arming makes no event: it must be polled.
  EXPECT_EQ(::poll(&sleeper, 1, 0), 0);
  EXPECT_EQ(pair.reader.completions.poll({&done, 1}), 1);

  read();
  read();
  EXPECT_EQ(::poll(&sleeper, 1, 0), 1);
  channel.drain();
  EXPECT_EQ(::poll(&sleeper, 1, 0), 0); // Armed once, so only one event came.
  EXPECT_EQ(pair.reader.completions.poll({&done, 1}), 1);
  EXPECT_EQ(pair.reader.completions.poll({&done, 1}), 1);
  EXPECT_EQ(pair.reader.completions.poll({&done, 1}), 0);
}

TEST_F(verbs_queue_pair, a_failed_device_fails_the_poll) {
  open();
  auto completions = must(completion_queue::create(*reader, 16, nullptr));
  fabric.fail(fake_call::poll, EIO);
  ibv_wc done{};
  EXPECT_LT(completions.poll({&done, 1}), 0);
}

} // namespace
} // namespace peercache::rdma::verbs::verbs_queue_pair_test
