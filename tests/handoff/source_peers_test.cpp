#include "handoff/source_peers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace peercache::handoff {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

kv_layout layout_of(const std::string& dtype, std::uint32_t rank = 0, std::uint32_t ranks = 1) {
  kv_layout layout;
  layout.dtype = dtype;
  layout.page_tokens = 1;
  layout.kv_heads = 2;
  layout.ranks.tp = rank;
  layout.ranks.tp_size = ranks;
  for (std::uint64_t address : {0x1000u, 0x8000u}) {
    kv_buffer buffer;
    buffer.address = address;
    buffer.item_bytes = 64 / ranks;
    buffer.length_bytes = std::uint64_t{16} * buffer.item_bytes;
    layout.buffers.push_back(buffer);
  }
  kv_buffer aux;
  aux.address = 0x10000;
  aux.item_bytes = 8;
  aux.length_bytes = 128;
  layout.aux = {aux};
  return layout;
}

class source_peers_test : public testing::Test {
protected:
  void know(peer_id peer, const kv_layout& layout) {
    peers.dialed(peer);
    peers.joined(peer, {});
    EXPECT_TRUE(peers.described(peer, layout));
  }
  source_peers peers{layout_of("bf16")};
};

TEST_F(source_peers_test, a_room_is_ready_when_all_its_workers_have_described_themselves) {
  peers.dialed({1});
  peers.dialed({2});
  peers.wait({7}, {{2}, {1}});
  EXPECT_TRUE(peers.is_waiting({7}));
  peers.joined({1}, {});
  peers.joined({2}, {});
  EXPECT_TRUE(peers.described({1}, layout_of("bf16", 0, 2)));
  EXPECT_THAT(peers.take_ready(), IsEmpty());
  EXPECT_TRUE(peers.described({2}, layout_of("bf16", 1, 2)));
  const auto ready = peers.take_ready();
  ASSERT_THAT(ready, SizeIs(1));
  EXPECT_EQ(ready[0].first, room_id{7});
  ASSERT_THAT(ready[0].second, SizeIs(2));
  EXPECT_EQ(ready[0].second[0].peer, peer_id{2});
  EXPECT_EQ(ready[0].second[1].peer, peer_id{1});
  EXPECT_NE(ready[0].second[0].plan, nullptr);
  EXPECT_FALSE(peers.is_waiting({7}));
  EXPECT_THAT(peers.take_ready(), IsEmpty());
}

TEST_F(source_peers_test, a_room_of_known_workers_is_ready_at_once) {
  know({1}, layout_of("bf16"));
  peers.wait({7}, {{1}});
  EXPECT_THAT(peers.take_ready(), SizeIs(1));
}

TEST_F(source_peers_test, a_worker_that_does_not_fit_fails_rooms_that_wait_and_those_to_come) {
  peers.dialed({1});
  peers.wait({7}, {{1}});
  peers.joined({1}, {});
  EXPECT_TRUE(peers.described({1}, layout_of("fp8")));
  auto failed = peers.take_failed();
  ASSERT_THAT(failed, SizeIs(1));
  EXPECT_EQ(failed[0].first, room_id{7});
  EXPECT_THAT(failed[0].second.reason, HasSubstr("fp8"));
  EXPECT_EQ(failed[0].second.kind, failure_kind::misfit);
  peers.wait({8}, {{1}});
  failed = peers.take_failed();
  ASSERT_THAT(failed, SizeIs(1));
  EXPECT_EQ(failed[0].first, room_id{8});
  EXPECT_FALSE(peers.is_waiting({8}));
  EXPECT_THAT(peers.take_ready(), IsEmpty());
}

TEST_F(source_peers_test, a_worker_that_is_lost_fails_the_rooms_that_wait_for_it_alone) {
  peers.dialed({1});
  peers.dialed({2});
  peers.wait({7}, {{1}});
  peers.wait({8}, {{2}});
  peers.lost({1}, "it died");
  const auto failed = peers.take_failed();
  ASSERT_THAT(failed, SizeIs(1));
  EXPECT_EQ(failed[0].first, room_id{7});
  EXPECT_EQ(failed[0].second, (room_failure{"it died", failure_kind::peer_lost}));
  EXPECT_TRUE(peers.is_waiting({8}));
  EXPECT_FALSE(peers.has({1}));
  EXPECT_TRUE(peers.has({2}));
}

TEST_F(source_peers_test, a_room_that_waits_no_more_is_never_ready) {
  peers.dialed({1});
  peers.wait({7}, {{1}});
  peers.forget({7});
  peers.joined({1}, {});
  EXPECT_TRUE(peers.described({1}, layout_of("bf16")));
  EXPECT_THAT(peers.take_ready(), IsEmpty());
  peers.lost({1}, "it died");
  EXPECT_THAT(peers.take_failed(), IsEmpty());
}

/// If a room named only some of prefill's ranks, decode would get a part of the prompt and take it
/// for the whole.
TEST_F(source_peers_test, a_room_without_one_of_its_workers_fails) {
  know({1}, layout_of("bf16", 0, 2));
  peers.wait({7}, {{1}});
  EXPECT_THAT(peers.take_ready(), IsEmpty());
  const auto failed = peers.take_failed();
  ASSERT_THAT(failed, SizeIs(1));
  EXPECT_EQ(failed[0].first, room_id{7});
  EXPECT_THAT(failed[0].second.reason, HasSubstr("1 of 2"));
  EXPECT_EQ(failed[0].second.kind, failure_kind::misfit);
  EXPECT_FALSE(peers.is_waiting({7}));
}

TEST_F(source_peers_test, a_room_that_has_a_worker_twice_fails) {
  know({1}, layout_of("bf16", 0, 2));
  know({2}, layout_of("bf16", 0, 2));
  peers.wait({7}, {{1}, {2}});
  peers.wait({8}, {{1}, {1}});
  EXPECT_THAT(peers.take_ready(), IsEmpty());
  const auto failed = peers.take_failed();
  ASSERT_THAT(failed, SizeIs(2));
  EXPECT_THAT(failed[0].second.reason, HasSubstr("twice"));
  EXPECT_THAT(failed[1].second.reason, HasSubstr("twice"));
}

TEST_F(source_peers_test, a_worker_describes_itself_once_and_after_its_hello) {
  EXPECT_FALSE(peers.described({1}, layout_of("bf16")));
  peers.dialed({1});
  EXPECT_FALSE(peers.described({1}, layout_of("bf16")));
  EXPECT_EQ(peers.who({1}), nullptr);
  peers.joined({1}, {});
  EXPECT_NE(peers.who({1}), nullptr);
  EXPECT_TRUE(peers.described({1}, layout_of("bf16")));
  EXPECT_FALSE(peers.described({1}, layout_of("bf16")));
}

} // namespace
} // namespace peercache::handoff
