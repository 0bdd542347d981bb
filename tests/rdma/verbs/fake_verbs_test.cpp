#include "tests/rdma/verbs/fake_rig.hpp"

#include <cerrno>
#include <gmock/gmock.h>

/// Tests of the fake verbs provider, on which other tests rely: it must refuse requests that
/// hardware refuses, and accept those that hardware accepts.
namespace peercache::rdma::verbs::fake_verbs_test {
namespace {

using namespace peercache::tests;
using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using done = fake_rig::completion;

struct wrong_request {
  const char* name;
  std::function<void(fake_rig&, ibv_send_wr&)> change;
  ibv_wc_status status;
};

/// Posts one READ that is changed as `wrong` says, and expects the status that `wrong` names.
void expect_status(const wrong_request& wrong) {
  fake_rig rig;
  rig.change = [&](ibv_send_wr& one) { wrong.change(rig, one); };
  EXPECT_EQ(rig.status_of({.wr_id = 1}), wrong.status) << wrong.name;
  EXPECT_EQ(rig.here, buffer(fake_rig::bytes)) << wrong.name;
  const auto number = rig.pair->reader.pair.number();
  EXPECT_EQ(rig.fabric.queue_pair(number)->state, IBV_QPS_ERR) << wrong.name;
  const bool remote = wrong.status == IBV_WC_REM_ACCESS_ERR;
  EXPECT_EQ(rig.fabric.queue_pair(rig.pair->server.pair.number())->state,
            remote ? IBV_QPS_ERR : IBV_QPS_RTS)
      << wrong.name;
}

TEST(fake_verbs, a_read_needs_a_known_remote_key_and_its_range) {
  expect_status(
      {"unknown key", [](auto&, auto& one) { one.wr.rdma.rkey += 2; }, IBV_WC_REM_ACCESS_ERR});
  expect_status({"local key", [](auto& rig, auto& one) { one.wr.rdma.rkey = rig.pool.local_key(); },
                 IBV_WC_REM_ACCESS_ERR});
  expect_status({"the reader's own region",
                 [](auto& rig, auto& one) { one.wr.rdma.rkey = rig.target.remote_key(); },
                 IBV_WC_REM_ACCESS_ERR});
  expect_status({"before the region", [](auto&, auto& one) { --one.wr.rdma.remote_addr; },
                 IBV_WC_REM_ACCESS_ERR});
  expect_status({"past the region",
                 [](auto&, auto& one) { one.wr.rdma.remote_addr += fake_rig::bytes - 63; },
                 IBV_WC_REM_ACCESS_ERR});
  expect_status(
      {"deregistered", [](auto& rig, auto&) { rig.pool.reset(); }, IBV_WC_REM_ACCESS_ERR});
}

TEST(fake_verbs, a_read_needs_a_known_local_key_and_its_range) {
  expect_status(
      {"unknown key", [](auto&, auto& one) { one.sg_list->lkey += 2; }, IBV_WC_LOC_PROT_ERR});
  expect_status({"remote key",
                 [](auto& rig, auto& one) { one.sg_list->lkey = rig.target.remote_key(); },
                 IBV_WC_LOC_PROT_ERR});
  expect_status({"past the region",
                 [](auto&, auto& one) { one.sg_list->addr += fake_rig::bytes - 63; },
                 IBV_WC_LOC_PROT_ERR});
  expect_status(
      {"deregistered", [](auto& rig, auto&) { rig.target.reset(); }, IBV_WC_LOC_PROT_ERR});
}

TEST(fake_verbs, a_read_needs_the_regions_right) {
  fake_rig rig;
  const auto hidden =
      must(memory_region::register_memory(*rig.server, rig.there, region_use::local_write));
  rig.change = [&](ibv_send_wr& one) { one.wr.rdma.rkey = hidden.remote_key(); };
  EXPECT_EQ(rig.status_of({}), IBV_WC_REM_ACCESS_ERR);
}

TEST(fake_verbs, a_destination_needs_the_right_to_be_written) {
  fake_rig rig;
  const auto constant =
      must(memory_region::register_memory(*rig.reader, rig.here, region_use::remote_read));
  rig.change = [&](ibv_send_wr& one) { one.sg_list->lkey = constant.local_key(); };
  EXPECT_EQ(rig.status_of({}), IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(rig.here, buffer(fake_rig::bytes));
}

TEST(fake_verbs, a_read_of_another_domains_region_is_refused) {
  fake_rig rig;
  const auto other = must(device::open("fake1", {}));
  const auto hidden =
      must(memory_region::register_memory(*other, rig.there, region_use::remote_read));
  rig.change = [&](ibv_send_wr& one) { one.wr.rdma.rkey = hidden.remote_key(); };
  EXPECT_EQ(rig.status_of({}), IBV_WC_REM_ACCESS_ERR);
}

/// A server that grants access rights which the product never grants; made with plain verbs calls.
class generous_server {
public:
  generous_server(fake_rig& rig, unsigned pair_rights, unsigned region_rights)
      : queue_(ibv_create_cq(rig.server->context(), 4, nullptr, nullptr, 0)),
        region_(ibv_reg_mr(rig.server->domain(), rig.there.data(), rig.there.size(),
                           static_cast<int>(region_rights))),
        completions(must(completion_queue::create(*rig.reader, 16, nullptr))),
        reader(must(queue_pair::create(*rig.reader, completions, queue_pair_use::reader, 4, 1))) {
    ibv_qp_init_attr wanted{};
    wanted.send_cq = wanted.recv_cq = queue_;
    wanted.qp_type = IBV_QPT_RC;
    pair_ = ibv_create_qp(rig.server->domain(), &wanted);
    connect(rig, pair_rights);
    must(reader.connect({.remote_queue_pair = pair_->qp_num,
                         .remote_gid = rig.server->port().gid,
                         .initiator_depth = 4,
                         .responder_depth = 0},
                        {}));
  }
  ~generous_server() {
    ibv_destroy_qp(pair_);
    ibv_destroy_cq(queue_);
    ibv_dereg_mr(region_);
  }

  ibv_wc_status run(fake_rig& rig, ibv_wr_opcode what, std::uint64_t add = 0) {
    ibv_sge piece{rig.target.address(), 8, rig.target.local_key()};
    ibv_send_wr one{.sg_list = &piece, .num_sge = 1, .opcode = what};
    one.wr.atomic = {reinterpret_cast<std::uint64_t>(rig.there.data()), add, 0, region_->rkey};
    if (what == IBV_WR_RDMA_WRITE)
      one.wr.rdma = {reinterpret_cast<std::uint64_t>(rig.there.data()), region_->rkey};
    one.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* bad = nullptr;
    EXPECT_EQ(reader.post(&one, &bad), 0);
    ibv_wc done{};
    EXPECT_EQ(completions.poll({&done, 1}), 1);
    return done.status;
  }

private:
  void connect(fake_rig& rig, unsigned rights) {
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_INIT;
    to.port_num = 1;
    to.qp_access_flags = rights;
    EXPECT_EQ(ibv_modify_qp(pair_, &to,
                            IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
              0);
    to.qp_state = IBV_QPS_RTR;
    to.path_mtu = IBV_MTU_1024;
    to.dest_qp_num = reader.number();
    to.max_dest_rd_atomic = 4;
    to.ah_attr.port_num = 1;
    to.ah_attr.is_global = 1;
    to.ah_attr.grh.hop_limit = 1;
    to.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(rig.server->port().gid_index);
    std::memcpy(to.ah_attr.grh.dgid.raw, rig.reader->port().gid.data(), 16);
    EXPECT_EQ(ibv_modify_qp(pair_, &to,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
              0);
  }

  ibv_cq* queue_;
  ibv_mr* region_;
  ibv_qp* pair_ = nullptr;

public:
  completion_queue completions;
  queue_pair reader;
};

constexpr unsigned write_rights = IBV_ACCESS_LOCAL_WRITE | remote_write_right;
constexpr unsigned atomic_rights = IBV_ACCESS_LOCAL_WRITE | remote_atomic_right;

TEST(fake_verbs, a_write_needs_the_rights_of_queue_pair_and_region) {
  fake_rig rig;
  std::fill(rig.here.begin(), rig.here.end(), std::byte{9});
  const buffer before = rig.there;
  EXPECT_EQ(generous_server(rig, 0, write_rights).run(rig, IBV_WR_RDMA_WRITE),
            IBV_WC_REM_INV_REQ_ERR);
  EXPECT_EQ(generous_server(rig, write_rights, IBV_ACCESS_REMOTE_READ).run(rig, IBV_WR_RDMA_WRITE),
            IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(rig.there, before);
  EXPECT_EQ(generous_server(rig, write_rights, write_rights).run(rig, IBV_WR_RDMA_WRITE),
            IBV_WC_SUCCESS);
  EXPECT_TRUE(rig.arrived(0, 8));
}

TEST(fake_verbs, an_atomic_needs_the_rights_of_queue_pair_and_region) {
  fake_rig rig;
  std::uint64_t old = 0;
  std::memcpy(&old, rig.there.data(), 8);
  const auto what = IBV_WR_ATOMIC_FETCH_AND_ADD;
  EXPECT_EQ(generous_server(rig, 0, atomic_rights).run(rig, what, 5), IBV_WC_REM_INV_REQ_ERR);
  EXPECT_EQ(generous_server(rig, atomic_rights, IBV_ACCESS_REMOTE_READ).run(rig, what, 5),
            IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(std::memcmp(&old, rig.there.data(), 8), 0);
  EXPECT_EQ(generous_server(rig, atomic_rights, atomic_rights).run(rig, what, 5), IBV_WC_SUCCESS);
  EXPECT_EQ(std::memcmp(&old, rig.here.data(), 8), 0);
  old += 5;
  EXPECT_EQ(std::memcmp(&old, rig.there.data(), 8), 0);
}

TEST(fake_verbs, a_peer_that_is_gone_shows_after_the_retries) {
  fake_rig rig;
  rig.fabric.set_retry_delay(milliseconds(100));
  rig.pair->server.pair.reset();
  rig.post({{.wr_id = 1}, {.wr_id = 2, .flags = 0}});
  rig.fabric.advance(milliseconds(99));
  EXPECT_THAT(rig.completions(), IsEmpty());
  rig.fabric.advance(milliseconds(1));
  EXPECT_THAT(rig.completions(),
              ElementsAre(done{1, IBV_WC_RETRY_EXC_ERR}, done{2, IBV_WC_WR_FLUSH_ERR}));
}

TEST(fake_verbs, a_link_that_comes_back_within_the_retries_costs_time_only) {
  fake_rig rig;
  rig.fabric.set_retry_delay(milliseconds(100));
  rig.fabric.set_port_state("fake1", 1, IBV_PORT_DOWN);
  rig.post({{.wr_id = 1}});
  rig.fabric.advance(milliseconds(50));
  rig.fabric.set_port_state("fake1", 1, IBV_PORT_ACTIVE);
  rig.fabric.advance(milliseconds(50));
  EXPECT_THAT(rig.completions(), ElementsAre(done{1, IBV_WC_SUCCESS}));
  rig.fabric.set_port_state("fake0", 1, IBV_PORT_DOWN);
  rig.post({{.wr_id = 2}});
  rig.fabric.advance(milliseconds(100));
  EXPECT_THAT(rig.completions(), ElementsAre(done{2, IBV_WC_RETRY_EXC_ERR}));
}

/// Connects a reader and a server that allow 4 READs at a time, and posts `reads` READs. `change`
/// may change the reader's path first. Returns the status of the first READ.
ibv_wc_status status_with(const std::function<void(path&)>& change, std::size_t reads = 4) {
  fake_rig rig;
  auto queue = must(completion_queue::create(*rig.reader, 16, nullptr));
  auto other = must(completion_queue::create(*rig.server, 16, nullptr));
  auto reader = must(queue_pair::create(*rig.reader, queue, queue_pair_use::reader, 8, 1));
  auto server = must(queue_pair::create(*rig.server, other, queue_pair_use::server, 4, 1));
  path there{.remote_queue_pair = server.number(),
             .remote_gid = rig.server->port().gid,
             .initiator_depth = 4,
             .responder_depth = 0};
  const path back{.remote_queue_pair = reader.number(),
                  .remote_gid = rig.reader->port().gid,
                  .responder_depth = 4};
  change(there);
  must(reader.connect(there, {}));
  must(server.connect(back, {}));
  ibv_sge piece{rig.target.address(), 8, rig.target.local_key()};
  std::vector<ibv_send_wr> chain(reads);
  for (std::size_t index = 0; index < chain.size(); ++index) {
    chain[index].sg_list = &piece;
    chain[index].num_sge = 1;
    chain[index].opcode = IBV_WR_RDMA_READ;
    chain[index].send_flags = IBV_SEND_SIGNALED;
    chain[index].wr.rdma = {rig.pool.address(), rig.pool.remote_key()};
    chain[index].next = index + 1 < reads ? &chain[index + 1] : nullptr;
  }
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(reader.post(chain.data(), &bad), 0);
  ibv_wc first{};
  EXPECT_EQ(queue.poll({&first, 1}), 1);
  return first.status;
}

TEST(fake_verbs, ends_that_do_not_fit_together_do_not_speak) {
  EXPECT_EQ(status_with([](path&) {}), IBV_WC_SUCCESS);
  EXPECT_EQ(status_with([](path& to) { to.own_psn = 1; }), IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(status_with([](path& to) { to.mtu_bytes = 2048; }), IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(status_with([](path& to) { to.remote_gid[15] = 77; }), IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(status_with([](path& to) { ++to.remote_queue_pair; }), IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(status_with([](path& to) { to.initiator_depth = 0; }), IBV_WC_LOC_QP_OP_ERR);
}

TEST(fake_verbs, a_responder_answers_no_more_at_a_time_than_agreed_on) {
  const auto sixteen = [](path& to) { to.initiator_depth = 16; };
  EXPECT_EQ(status_with(sixteen, 4), IBV_WC_SUCCESS);
  EXPECT_EQ(status_with(sixteen, 5), IBV_WC_REM_INV_REQ_ERR);
  // The device sends at most 4 of the 8 READs at a time, and keeps the others waiting.
  EXPECT_EQ(status_with([](path&) {}, 8), IBV_WC_SUCCESS);
}

TEST(fake_verbs, one_error_flushes_all_that_follows_signalled_or_not) {
  fake_rig rig;
  rig.change = [](ibv_send_wr& one) { one.wr.rdma.rkey += one.wr_id == 2 ? 2 : 0; };
  rig.post({{.wr_id = 1, .flags = 0}, {.wr_id = 2, .flags = 0}, {.wr_id = 3, .flags = 0}});
  EXPECT_THAT(rig.completions(),
              ElementsAre(done{2, IBV_WC_REM_ACCESS_ERR}, done{3, IBV_WC_WR_FLUSH_ERR}));
  EXPECT_EQ(rig.post({{.wr_id = 4, .flags = 0}}).first, 0);
  EXPECT_THAT(rig.completions(), ElementsAre(done{4, IBV_WC_WR_FLUSH_ERR}));
}

TEST(fake_verbs, a_message_beyond_the_ports_limit_is_refused) {
  fake_rig rig(1, [](fake_device& device) { device.ports[0].message_bytes_max = 4096; });
  EXPECT_EQ(rig.status_of({.length = 4096}), IBV_WC_SUCCESS);
  EXPECT_EQ(rig.status_of({.length = 4097}), IBV_WC_LOC_LEN_ERR);
}

TEST(fake_verbs, slots_come_back_when_a_signalled_completion_at_or_after_them_is_polled) {
  fake_rig rig;
  constexpr std::size_t depth = rail_end::send_depth;
  std::vector<fake_rig::request> all(depth + 1, {.flags = 0});
  for (std::size_t index = 0; index < all.size(); ++index)
    all[index].wr_id = index;
  all[9].flags = IBV_SEND_SIGNALED;
  EXPECT_EQ(rig.post(all), std::pair(ENOMEM, std::optional<std::uint64_t>(depth)));
  // All requests were carried out, but their slots of the send queue are still taken.
  EXPECT_EQ(rig.fabric.waiting(), 0U);
  EXPECT_EQ(rig.post({{.wr_id = 99}}).first, ENOMEM);
  EXPECT_THAT(rig.completions(), ElementsAre(done{9, IBV_WC_SUCCESS}));
  EXPECT_EQ(rig.post(std::vector<fake_rig::request>(10)).first, 0);
  EXPECT_EQ(rig.post({{.wr_id = 99}}).first, ENOMEM);
}

TEST(fake_verbs, what_follows_a_refused_work_request_is_not_taken) {
  fake_rig rig;
  rig.change = [](ibv_send_wr& one) {
    if (one.wr_id == 2)
      one.num_sge = static_cast<int>(rail_end::sge) + 1;
  };
  EXPECT_EQ(rig.post({{.wr_id = 1}, {.wr_id = 2}, {.wr_id = 3}}),
            std::pair(EINVAL, std::optional<std::uint64_t>(2)));
  EXPECT_THAT(rig.completions(), ElementsAre(done{1, IBV_WC_SUCCESS}));
}

TEST(fake_verbs, pieces_of_nothing_are_noted) {
  fake_rig rig;
  EXPECT_EQ(rig.status_of({.length = 0}), IBV_WC_LOC_PROT_ERR);
  EXPECT_THAT(rig.fabric.misuse(), ElementsAre(HasSubstr("piece of 0 bytes")));
}

TEST(fake_verbs, a_queue_pair_takes_nothing_before_it_is_ready) {
  fake_rig rig;
  auto pair = must(
      queue_pair::create(*rig.reader, rig.pair->reader.completions, queue_pair_use::reader, 4, 1));
  ibv_send_wr one{};
  one.opcode = IBV_WR_RDMA_READ;
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(pair.post(&one, &bad), EINVAL);
  EXPECT_EQ(bad, &one);
}

} // namespace
} // namespace peercache::rdma::verbs::fake_verbs_test
