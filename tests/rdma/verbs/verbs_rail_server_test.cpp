// Tests of how a rail server accepts readers: hello, answer, ready, chunks of the pool, READs.

#include "rdma/tcp/tcp_page_server.hpp"
#include "tests/rdma/plane_rig.hpp"
#include "tests/rdma/verbs/verbs_rail_rig.hpp"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <random>

namespace peercache::rdma::verbs_rail_server_test {
namespace {

class verbs_rail_server_test : public verbs_rail_rig {};

TEST_F(verbs_rail_server_test, a_reader_reads_the_pool_through_the_queue_pair_it_was_told_of) {
  serve();
  register_all();
  std::memset(pool->pages(), 0x5c, 8192);
  const auto reader = established();
  ASSERT_EQ(reader->chunks.size(), 3u);
  const auto& chunk = reader->chunks[0];
  EXPECT_EQ(reader->work(IBV_WR_RDMA_READ, reader->answer.pages_address, chunk.rkey, 8192),
            IBV_WC_SUCCESS);
  EXPECT_TRUE(std::all_of(reader->memory.begin(), reader->memory.begin() + 8192,
                          [](std::byte byte) { return byte == std::byte{0x5c}; }));
  EXPECT_EQ(reader->memory[8192], std::byte{0});
  EXPECT_TRUE(fabric.misuse().empty());
}

TEST_F(verbs_rail_server_test, the_answer_says_who_serves_and_where_the_pool_lies) {
  serve();
  const auto reader = established();
  const auto& answer = reader->answer;
  EXPECT_EQ(answer.rail, 1);
  EXPECT_EQ(answer.rails, 2);
  EXPECT_EQ(answer.inc, (incarnation{1, 1}));
  EXPECT_EQ(name_of(answer.name), "node-1");
  EXPECT_EQ(answer.granules, 5 * rail_pool::granules_in_mib);
  EXPECT_EQ(answer.table_address, reinterpret_cast<std::uint64_t>(pool->region().data()));
  EXPECT_EQ(answer.pages_address, reinterpret_cast<std::uint64_t>(pool->pages()));
  EXPECT_EQ(answer.region_bytes, pool->region().size());
  EXPECT_EQ(answer.chunks, 3u);
}

TEST_F(verbs_rail_server_test, the_queue_pair_takes_what_both_ends_can) {
  serve();
  auto reader = new_reader();
  reader->greeting.end.mtu_bytes = 1024;
  reader->greeting.end.initiator_depth = 3;
  reader->greeting.end.responder_depth = 2;
  reader->greeting.end.message_bytes = 1 << 20;
  reader->come(*server);
  settle();
  reader->connect();
  const auto pair = fabric.queue_pair(reader->answer.end.queue_pair);
  ASSERT_TRUE(pair);
  EXPECT_EQ(pair->state, IBV_QPS_RTS);
  EXPECT_EQ(pair->attributes.path_mtu, IBV_MTU_1024);
  EXPECT_EQ(pair->attributes.max_dest_rd_atomic, 3);
  EXPECT_EQ(pair->attributes.max_rd_atomic, 2);
  EXPECT_EQ(pair->attributes.rq_psn, reader->greeting.end.psn);
  EXPECT_EQ(pair->attributes.dest_qp_num, reader->greeting.end.queue_pair);
  EXPECT_EQ(pair->attributes.qp_access_flags, static_cast<unsigned>(IBV_ACCESS_REMOTE_READ));
  EXPECT_EQ(reader->answer.end.message_bytes, 1u << 20);
}

TEST_F(verbs_rail_server_test, each_wrong_hello_gets_its_verdict_and_no_queue_pair) {
  serve();
  const auto verdict_with = [this](auto damage) {
    auto reader = new_reader();
    damage(reader->greeting);
    const auto verdict = verdict_for(*reader);
    EXPECT_TRUE(reader->told_end());
    return verdict;
  };
  EXPECT_EQ(verdict_with([](auto& say) { say.cluster ^= 1; }), verbs_verdict::other_cluster);
  EXPECT_EQ(verdict_with([](auto& say) { say.inc = {2, 2}; }), verbs_verdict::other_incarnation);
  EXPECT_EQ(verdict_with([](auto& say) { say.version = 9; }), verbs_verdict::incompatible);
  EXPECT_EQ(verdict_with([](auto& say) { say.magic = hello_magic; }), verbs_verdict::incompatible);
  EXPECT_EQ(verdict_with([](auto& say) { say.end.layer = 1, say.end.lid = 5; }),
            verbs_verdict::incompatible);
  EXPECT_EQ(verdict_with([](auto& say) { say.end.mtu_bytes = 1; }), verbs_verdict::incompatible);
  EXPECT_EQ(pairs_made(), 0u);
  const auto seen = stats();
  EXPECT_EQ(seen.hellos, 6u);
  EXPECT_EQ(seen.verdicts[static_cast<std::size_t>(verbs_verdict::incompatible)], 4u);
  EXPECT_EQ(seen.sessions, 0u);
}

TEST_F(verbs_rail_server_test, who_is_refused_learns_no_address) {
  serve();
  auto reader = new_reader();
  reader->greeting.cluster = 0;
  reader->come(*server);
  settle();
  const auto heard = reader->peer.hear<verbs_answer>();
  ASSERT_TRUE(heard);
  EXPECT_EQ(heard->table_address, 0u);
  EXPECT_EQ(heard->pages_address, 0u);
  EXPECT_EQ(heard->end.queue_pair, 0u);
}

TEST_F(verbs_rail_server_test,
       chunks_come_first_thing_after_the_answer_and_later_as_they_are_ready) {
  serve();
  server->regions().register_next();
  auto early = new_reader();
  early->come(*server);
  settle();
  early->connect();
  early->take_chunks();
  ASSERT_EQ(early->chunks.size(), 1u) << "before the ready message";
  early->peer.say(verbs_ready{});
  settle();
  EXPECT_EQ(early->read(early->chunks[0]), IBV_WC_SUCCESS) << "served from the first chunk on";
  server->regions().register_next();
  const auto late = established("late");
  EXPECT_EQ(late->chunks.size(), 2u);
  server->regions().register_next();
  settle();
  for (const auto& each : {early.get(), late.get()}) {
    each->take_chunks();
    ASSERT_EQ(each->chunks.size(), 3u);
    for (const auto& chunk : each->chunks)
      EXPECT_EQ(each->read(chunk), IBV_WC_SUCCESS);
  }
  EXPECT_EQ(stats().regions.registered, 3u);
}

TEST_F(verbs_rail_server_test, it_serves_what_it_has_when_a_chunk_cannot_be_registered) {
  serve();
  fabric.fail(tests::fake_call::register_memory, EIO);
  register_all();
  const auto reader = established();
  EXPECT_EQ(reader->chunks.size(), 2u);
  EXPECT_EQ(stats().regions.failed, 1u);
  EXPECT_NE(stats().regions.failure, "");
}

TEST_F(verbs_rail_server_test, thousands_of_chunks_reach_a_reader_that_reads_slowly) {
  serve(rail_options(), 3000);
  register_all();
  auto reader = new_reader();
  const int small = 4096;
  ::setsockopt(reader->servers_end.get(), SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
  reader->come(*server);
  settle();
  reader->connect();
  reader->peer.say(verbs_ready{});
  const auto all = server->regions().chunks();
  while (reader->chunks.size() < all) {
    const auto before = reader->chunks.size();
    settle();
    reader->take_chunks();
    ASSERT_GT(reader->chunks.size(), before);
    ASSERT_LE(reader->chunks.size() - before, all / 2) << "the socket is too large for this test";
  }
  for (std::uint32_t i = 0; i < all; ++i)
    EXPECT_EQ(reader->chunks[i].index, i);
}

TEST_F(verbs_rail_server_test, writes_and_atomics_to_the_pool_are_refused_by_the_device) {
  serve();
  register_all();
  for (const auto opcode :
       {IBV_WR_RDMA_WRITE, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD}) {
    const auto reader = established();
    const auto address = reader->answer.pages_address;
    reader->memory.assign(reader->memory.size(), std::byte{0xee});
    EXPECT_EQ(reader->work(opcode, address, reader->chunks[0].rkey, 8), IBV_WC_REM_INV_REQ_ERR);
    EXPECT_EQ(pool->pages()[0], std::byte{0});
  }
}

TEST_F(verbs_rail_server_test,
       a_read_past_a_chunk_or_with_another_key_fails_and_the_next_reader_reads) {
  serve();
  register_all();
  const auto bad = [this](auto what) {
    const auto reader = established();
    auto chunk = reader->chunks[1];
    what(chunk);
    return reader->read(chunk);
  };
  EXPECT_EQ(bad([](auto& chunk) { chunk.address += chunk.bytes - 4095; }), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(bad([](auto& chunk) { chunk.rkey ^= 0x5555; }), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(bad([](auto&) {}), IBV_WC_SUCCESS);
  EXPECT_GE(stats().device_events, 2u);
}

TEST_F(verbs_rail_server_test, a_queue_pair_that_cannot_be_made_sends_the_reader_elsewhere) {
  serve();
  const auto failing = [this](tests::fake_call call, int error) {
    fabric.fail(call, error);
    auto reader = new_reader();
    return verdict_for(*reader);
  };
  auto healthy = new_reader();
  EXPECT_EQ(failing(tests::fake_call::to_ready_to_receive, ENETUNREACH), verbs_verdict::no_device);
  EXPECT_EQ(failing(tests::fake_call::to_ready_to_send, EINVAL), verbs_verdict::no_device);
  EXPECT_EQ(stats().queue_pairs_failed, 2u);
  EXPECT_NE(stats().queue_pair_failure, "");
  EXPECT_EQ(fabric.objects().queue_pairs, 1u) << "only the healthy reader's own";
  EXPECT_EQ(verdict_for(*healthy), verbs_verdict::accepted);
}

TEST_F(verbs_rail_server_test, it_comes_from_the_page_servers_port_as_well_as_tcp_does) {
  serve();
  register_all();
  tcp_page_server_options opts;
  opts.inc = {1, 1};
  opts.cluster = "test";
  opts.on_verbs_hello = [this](net::stream_socket socket, const verbs_hello& greeting,
                               auto came_at) {
    server->accept(std::move(socket), greeting, came_at);
  };
  test_pool pages;
  auto port = tcp_page_server::listen(opts, pages);
  ASSERT_TRUE(port);
  auto reader = new_reader();
  reader->peer = raw_peer((*port)->port());
  raw_peer tcp((*port)->port());
  const auto bytes = std::as_bytes(std::span(&reader->greeting, 1));
  reader->peer.send(bytes.first(70));
  hello plain;
  plain.cluster = cluster_digest("test");
  plain.inc = {1, 1};
  tcp.say(plain);
  std::optional<hello_answer> tcp_answer;
  const auto poll_both = [&](auto until) {
    for (const auto end = clock::now() + std::chrono::seconds(30); !until() && clock::now() < end;)
      if (!(*port)->poll(now) && !server->poll(now))
        sched_yield();
    return until();
  };
  ASSERT_TRUE(poll_both([&] { return tcp_answer || (tcp_answer = tcp.hear<hello_answer>()); }));
  EXPECT_EQ(stats().hellos, 0u);
  reader->peer.send(bytes.subspan(70));
  ASSERT_TRUE(poll_both([&] { return pairs_made() == 1; }));
  settle();
  reader->connect();
  reader->peer.say(verbs_ready{});
  settle();
  reader->take_chunks();
  ASSERT_EQ(reader->chunks.size(), 3u);
  EXPECT_EQ(reader->read(reader->chunks[2]), IBV_WC_SUCCESS);
  EXPECT_EQ((*port)->connections(), 1u);
}

TEST_F(verbs_rail_server_test, options_that_cannot_be_are_refused_before_anything_is_made) {
  const rail_pool some(5);
  auto endless = rail_options();
  endless.path.retries = 7;
  EXPECT_FALSE(verbs_rail_server::create(open("nic0"), endless, some.served()));
  auto odd = rail_options();
  odd.chunk_bytes = 1000;
  EXPECT_FALSE(verbs_rail_server::create(open("nic0"), odd, some.served()));
}

} // namespace
} // namespace peercache::rdma::verbs_rail_server_test
