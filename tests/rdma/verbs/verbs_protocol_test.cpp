// Tests of the verbs handshake: its layout, and each of its rules.

#include "common/slot_entry.hpp"
#include "common/test_guards.hpp"
#include "rdma/tcp/tcp_protocol.hpp"
#include "tests/rdma/verbs/verbs_messages.hpp"

#include <gtest/gtest.h>

namespace peercache::rdma::verbs_protocol_test {
namespace {

using namespace verbs_messages;

TEST(verbs_protocol, the_hello_lies_on_the_wire_as_its_table_says) {
  auto say = good_hello();
  say.rail = 5;
  const auto bytes = bytes_of(say);
  EXPECT_EQ(std::memcmp(bytes.data(), "PCVH", 4), 0);
  EXPECT_EQ(bytes[4], verbs_wire_version);
  EXPECT_EQ(bytes[6], 5);
  EXPECT_EQ(bytes[8], 0x88) << "cluster, little endian";
  EXPECT_EQ(bytes[16], 7) << "inc";
  EXPECT_EQ(bytes[32], 3) << "reader";
  EXPECT_EQ(bytes[48 + 12], 10) << "gid";
  EXPECT_EQ(bytes[48 + 16], 0x03) << "queue pair";
  EXPECT_EQ(bytes[48 + 20], 0x0c) << "psn";
  EXPECT_EQ(bytes[48 + 25], 0x10) << "mtu";
  EXPECT_EQ(bytes[48 + 30], 0x80) << "message bytes";
  EXPECT_EQ(bytes[48 + 34], 16) << "initiator depth";
  EXPECT_EQ(bytes[88], 'n') << "name";
}

TEST(verbs_protocol, the_answer_and_what_follows_lie_on_the_wire_as_their_tables_say) {
  const auto answer = bytes_of(good_answer());
  EXPECT_EQ(std::memcmp(answer.data(), "PCVA", 4), 0);
  EXPECT_EQ(answer[7], 1) << "rail";
  EXPECT_EQ(answer[8], 7) << "inc";
  EXPECT_EQ(answer[24 + 16], 0x03) << "queue pair";
  EXPECT_EQ(answer[64 + 1], 0x10) << "table";
  EXPECT_EQ(answer[72 + 2], 0x02) << "pages";
  EXPECT_EQ(answer[80 + 1], 0x04) << "granules";
  EXPECT_EQ(answer[84], 3) << "chunks";
  EXPECT_EQ(answer[88 + 2], 0x42) << "region bytes";
  EXPECT_EQ(answer[136], 2) << "rails";
  EXPECT_EQ(answer[137], 0) << "service";
  const auto chunk = bytes_of(good_chunk());
  EXPECT_EQ(std::memcmp(chunk.data(), "PCVC", 4), 0);
  EXPECT_EQ(chunk[4], 2) << "index";
  EXPECT_EQ(chunk[8 + 1], 0x20) << "address";
  EXPECT_EQ(chunk[16 + 2], 0x10) << "bytes";
  EXPECT_EQ(chunk[24], 77) << "rkey";
  EXPECT_EQ(chunk[28], 0) << "kind";
  EXPECT_EQ(bytes_of(good_area())[28], 1) << "kind";
  EXPECT_EQ(std::memcmp(bytes_of(verbs_ready{}).data(), "PCVR\0\0\0\0\0\0\0\0\0\0\0\0", 16), 0);
}

TEST(verbs_protocol, its_first_bytes_tell_it_from_the_tcp_protocol) {
  EXPECT_NE(verbs_hello_magic, hello_magic);
}

TEST(verbs_protocol, each_wrong_field_of_a_hello_has_its_verdict) {
  EXPECT_EQ(verdict_of(good_hello()), verbs_verdict::accepted);
  const auto with = [](auto damage) {
    auto say = good_hello();
    damage(say);
    return verdict_of(say);
  };
  EXPECT_EQ(with([](auto& say) { say.magic = hello_magic; }), verbs_verdict::incompatible);
  EXPECT_EQ(with([](auto& say) { say.version = 1; }), verbs_verdict::incompatible);
  EXPECT_EQ(with([](auto& say) { say.service = data_service::handoff; }),
            verbs_verdict::incompatible);
  EXPECT_EQ(with([](auto& say) { say.cluster = 1; }), verbs_verdict::other_cluster);
  EXPECT_EQ(with([](auto& say) { say.inc = {9, 7}; }), verbs_verdict::other_incarnation);
  EXPECT_EQ(with([](auto& say) { say.end.psn = 1u << 24; }), verbs_verdict::incompatible);
  EXPECT_EQ(judge(good_hello(), cluster, life, infiniband, data_service::pool),
            verbs_verdict::incompatible);
  EXPECT_EQ(judge(good_hello(), cluster, life, ethernet, data_service::handoff),
            verbs_verdict::incompatible);
}

TEST(verbs_protocol, a_hello_of_another_version_is_not_looked_at) {
  auto say = good_hello();
  say.version = 1;
  say.cluster = 1;
  EXPECT_EQ(verdict_of(say), verbs_verdict::incompatible);
}

TEST(verbs_protocol, without_the_incarnation_guard_a_wrong_life_passes) {
  const guard_switched_off off(guard::incarnation);
  auto say = good_hello();
  say.inc = {9, 7};
  EXPECT_EQ(verdict_of(say), verbs_verdict::accepted);
}

TEST(verbs_protocol, an_end_that_cannot_be_real_is_not_well_formed) {
  EXPECT_TRUE(well_formed(good_end()));
  const auto with = [](auto damage) {
    auto end = good_end();
    damage(end);
    return well_formed(end);
  };
  EXPECT_FALSE(with([](auto& end) { end.queue_pair = 0; }));
  EXPECT_FALSE(with([](auto& end) { end.queue_pair = 1u << 24; }));
  EXPECT_FALSE(with([](auto& end) { end.psn = 1u << 24; }));
  EXPECT_TRUE(with([](auto& end) { end.psn = 0; }));
  for (const auto mtu : {0u, 128u, 1500u, 4095u, 8192u})
    EXPECT_FALSE(with([mtu](auto& end) { end.mtu_bytes = mtu; })) << mtu;
  for (const auto mtu : {256u, 512u, 1024u, 2048u})
    EXPECT_TRUE(with([mtu](auto& end) { end.mtu_bytes = mtu; })) << mtu;
  for (const auto bytes : {0u, 1u, 63u})
    EXPECT_FALSE(with([bytes](auto& end) { end.message_bytes = bytes; })) << bytes;
  EXPECT_TRUE(with([](auto& end) { end.message_bytes = 64; })) << "a slot's entry in one READ";
  EXPECT_FALSE(with([](auto& end) { end.initiator_depth = 0; }));
  EXPECT_FALSE(with([](auto& end) { end.responder_depth = 0; }));
  EXPECT_FALSE(with([](auto& end) { end.layer = 2; }));
  EXPECT_FALSE(with([](auto& end) { end.reserved[2] = 1; }));
  EXPECT_FALSE(with([](auto& end) { end.gid = {}; })) << "Ethernet needs a GID";
  EXPECT_FALSE(with([](auto& end) { end.layer = infiniband; })) << "InfiniBand needs a LID";
  EXPECT_TRUE(with([](auto& end) { end.layer = infiniband, end.lid = 4, end.gid = {}; }));
}

TEST(verbs_protocol, an_answer_that_cannot_be_real_is_not_well_formed) {
  EXPECT_TRUE(well_formed(good_answer()));
  const auto with = [](auto damage) {
    auto answer = good_answer();
    damage(answer);
    return well_formed(answer);
  };
  EXPECT_FALSE(with([](auto& answer) { answer.magic = verbs_hello_magic; }));
  EXPECT_FALSE(with([](auto& answer) { answer.version = 1; }));
  EXPECT_FALSE(with([](auto& answer) { answer.verdict = verbs_verdict::busy; }));
  EXPECT_FALSE(with([](auto& answer) { answer.rails = 0; }));
  EXPECT_FALSE(with([](auto& answer) { answer.rail = 2; }));
  EXPECT_FALSE(with([](auto& answer) { answer.reserved[5] = 1; }));
  EXPECT_FALSE(with([](auto& answer) { answer.end.mtu_bytes = 1; }));
  EXPECT_FALSE(with([](auto& answer) { answer.granules = 0; }));
  EXPECT_FALSE(with([](auto& answer) { answer.granules += 1; })) << "pages past the region";
  EXPECT_FALSE(with([](auto& answer) { answer.granules = 0xFFFFFFFF; }));
  EXPECT_FALSE(with([](auto& answer) { answer.chunks = 0; }));
  EXPECT_FALSE(with([](auto& answer) { answer.chunks = region_chunks_max + 1; }));
  EXPECT_FALSE(with([](auto& answer) { answer.region_bytes -= 1; }));
  EXPECT_FALSE(with([](auto& answer) { answer.region_bytes = ~0ull; })) << "wraps around";
  EXPECT_FALSE(with([](auto& answer) { answer.table_address = 0; }));
  EXPECT_FALSE(with([](auto& answer) { answer.table_address += 8; })) << "torn generations";
  EXPECT_FALSE(with([](auto& answer) { answer.pages_address = answer.table_address; }));
  EXPECT_FALSE(with([](auto& answer) { answer.pages_address = answer.table_address - 4096; }));
  EXPECT_FALSE(with([](auto& answer) { answer.pages_address = ~0ull - 4096; }));
}

/// Returns the answer of a server of memory under leases, with a table of 4 leases and nothing
/// else.
verbs_answer answer_of_leases() {
  auto answer = good_answer();
  answer.service = data_service::handoff;
  answer.pages_address = 0;
  answer.granules = 4;
  answer.region_bytes = 4 * sizeof(slot_entry);
  answer.chunks = region_chunks_max;
  return answer;
}

TEST(verbs_protocol, a_server_of_leases_names_its_table_and_no_pages) {
  EXPECT_TRUE(well_formed(answer_of_leases()));
  const auto with = [](auto damage) {
    auto answer = answer_of_leases();
    damage(answer);
    return well_formed(answer);
  };
  EXPECT_FALSE(with([](auto& answer) { answer.service = data_service::pool; }));
  EXPECT_FALSE(with([](auto& answer) { answer.service = static_cast<data_service>(2); }));
  EXPECT_FALSE(with([](auto& answer) { answer.pages_address = answer.table_address; }));
  EXPECT_FALSE(with([](auto& answer) { answer.granules = 5; }));
  EXPECT_FALSE(with([](auto& answer) { answer.region_bytes = ~0ull; }));
}

TEST(verbs_protocol, a_chunk_of_memory_under_leases_may_lie_anywhere_but_ends) {
  const auto with = [](auto change) {
    auto chunk = good_chunk();
    change(chunk);
    return within(chunk, answer_of_leases());
  };
  EXPECT_TRUE(with([](auto& chunk) { chunk.address = 1ull << 60; }));
  EXPECT_FALSE(with([](auto& chunk) { chunk.address = 0; }));
  EXPECT_FALSE(with([](auto& chunk) { chunk.bytes = 0; }));
  EXPECT_FALSE(with([](auto& chunk) { chunk.bytes = 0 - chunk.address; })) << "ends at 0";
}

TEST(verbs_protocol, a_chunk_lies_within_the_region) {
  const auto answer = good_answer();
  EXPECT_TRUE(within(good_chunk(), answer));
  const auto with = [&answer](auto damage) {
    auto chunk = good_chunk();
    damage(chunk);
    return within(chunk, answer);
  };
  EXPECT_TRUE(with([&](auto& chunk) {
    chunk.address = answer.table_address, chunk.bytes = answer.region_bytes;
  }));
  EXPECT_FALSE(with([&](auto& chunk) { chunk.bytes = answer.region_bytes; }));
  EXPECT_FALSE(with([](auto& chunk) { chunk.magic = 0; }));
  EXPECT_FALSE(with([](auto& chunk) { chunk.index = 3; }));
  EXPECT_FALSE(with([](auto& chunk) { chunk.bytes = 0; }));
  EXPECT_FALSE(with([](auto& chunk) { chunk.bytes = ~0ull; }));
  EXPECT_FALSE(with([](auto& chunk) { chunk.bytes = 0 - chunk.address; })) << "ends at 0";
  EXPECT_FALSE(with([&](auto& chunk) { chunk.address = answer.table_address - 1; }));
  EXPECT_FALSE(with([](auto& chunk) { chunk.address = ~0ull; }));
  EXPECT_FALSE(with([](auto& chunk) { chunk.reserved[0] = 1; }));
}

TEST(verbs_protocol, an_area_lies_beside_a_pool_and_touches_none_of_it) {
  const auto answer = good_answer();
  EXPECT_TRUE(within(good_area(), answer));
  const auto with = [&answer](auto damage) {
    auto chunk = good_area();
    damage(chunk);
    return within(chunk, answer);
  };
  EXPECT_TRUE(with([&](auto& chunk) { chunk.bytes = 64, chunk.address = 64; }));
  EXPECT_TRUE(with([&](auto& chunk) { chunk.address = answer.table_address - chunk.bytes; }));
  EXPECT_FALSE(with([&](auto& chunk) { chunk.address = answer.table_address - chunk.bytes + 1; }));
  EXPECT_FALSE(with([&](auto& chunk) { chunk.address -= 1; }));
  EXPECT_FALSE(with([&](auto& chunk) { chunk.address = answer.table_address; }));
  EXPECT_FALSE(with([&](auto& chunk) {
    chunk.address = answer.table_address - 64, chunk.bytes = answer.region_bytes + 128;
  })) << "around the pool";
  EXPECT_FALSE(with([](auto& chunk) { chunk.address = 0; }));
  EXPECT_FALSE(with([](auto& chunk) { chunk.bytes = 0; }));
  EXPECT_FALSE(with([](auto& chunk) { chunk.bytes = 0 - chunk.address; })) << "ends at 0";
  EXPECT_FALSE(with([](auto& chunk) { chunk.index = 1; }));
  EXPECT_FALSE(with([](auto& chunk) { chunk.kind = static_cast<chunk_kind>(2); }));
  EXPECT_FALSE(with([](auto& chunk) { chunk.reserved[10] = 1; }));
  EXPECT_FALSE(within(good_area(), answer_of_leases())) << "beside leases there are none";
}

TEST(verbs_protocol, both_ends_take_what_both_can) {
  auto reader = good_end(), server = good_end();
  reader.mtu_bytes = 1024, server.mtu_bytes = 4096;
  reader.message_bytes = 1u << 30, server.message_bytes = 8u << 20;
  reader.initiator_depth = 128, server.responder_depth = 16;
  reader.responder_depth = 2, server.initiator_depth = 4;
  server.queue_pair = 99;
  const auto agreed = agree(reader, server);
  EXPECT_EQ(agreed.mtu_bytes, 1024u);
  EXPECT_EQ(agreed.message_bytes, 8u << 20);
  EXPECT_EQ(agreed.responder_depth, 16) << "READs that the reader may start";
  EXPECT_EQ(agreed.initiator_depth, 2);
  EXPECT_EQ(agreed.queue_pair, 99u) << "the rest is the server's";
  EXPECT_TRUE(well_formed(agreed));
}

TEST(verbs_protocol, names_are_cut_and_made_printable) {
  EXPECT_EQ(name_of(padded_name("node-1")), "node-1");
  EXPECT_EQ(name_of(padded_name(std::string(60, 'x'))), std::string(40, 'x'));
  EXPECT_EQ(name_of(padded_name("a\nb\x1b\xff")), "a?b??");
  EXPECT_EQ(name_of({}), "");
}

} // namespace
} // namespace peercache::rdma::verbs_protocol_test
