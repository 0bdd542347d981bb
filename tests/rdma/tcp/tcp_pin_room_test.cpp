#include "rdma/tcp/tcp_pin_room.hpp"

#include <gtest/gtest.h>

#include <string>

namespace peercache::rdma {
namespace {

constexpr std::uint64_t mib = 1u << 20;

class tcp_pin_room_test : public testing::Test {
protected:
  /// Takes room for requests of this length for the peer until there is none. Returns the bytes
  /// that were taken.
  std::uint64_t fill(const std::string& peer, std::uint64_t request_bytes) {
    const auto before = room.of(peer);
    while (admits(peer, request_bytes))
      room.take(peer, request_bytes);
    return room.of(peer) - before;
  }
  /// Asks for a new request of the peer, which does not wait when there is no room.
  bool admits(const std::string& peer, std::uint64_t bytes) {
    const bool yes = room.admits(&peer, peer, bytes);
    room.forget(&peer);
    return yes;
  }

  tcp_pin_room room{256 * mib};
};

TEST_F(tcp_pin_room_test, one_peer_gets_a_half_and_leaves_the_others_room) {
  EXPECT_EQ(fill("a", 8 * mib), 128 * mib);
  EXPECT_GE(fill("b", 8 * mib), 56 * mib);
  for (const auto* late : {"c", "d", "e"})
    EXPECT_TRUE(admits(late, 8 * mib)) << late;
}

TEST_F(tcp_pin_room_test, large_requests_leave_room_for_small_ones_of_others) {
  for (int i = 0; i < 10; ++i)
    fill("peer " + std::to_string(i), 32 * mib);
  EXPECT_FALSE(admits("late", 32 * mib));
  EXPECT_TRUE(admits("late", mib));
}

TEST_F(tcp_pin_room_test, large_requests_leave_room_for_small_ones_of_the_same_peer) {
  fill("a", 32 * mib);
  EXPECT_FALSE(admits("a", 32 * mib));
  EXPECT_TRUE(admits("a", mib));
}

TEST_F(tcp_pin_room_test, no_more_than_the_limit_is_pinned) {
  for (int i = 0; i < 1000; ++i)
    fill("peer " + std::to_string(i), mib);
  EXPECT_LE(room.used(), 256 * mib);
  EXPECT_GT(room.used(), 250 * mib);
}

TEST_F(tcp_pin_room_test, a_large_request_that_waits_is_not_overtaken_by_large_ones_that_fit) {
  for (int i = 0; i < 56; ++i)
    room.take("peer " + std::to_string(i), 4 * mib);
  const int large = 0, other = 0;
  EXPECT_FALSE(room.admits(&large, "late", 16 * mib));
  for (int i = 0; i < 4; ++i) {
    room.give_back("peer " + std::to_string(i), 4 * mib);
    EXPECT_FALSE(room.admits(&other, "other", 4 * mib)) << i;
    EXPECT_TRUE(admits("small", 2 * mib)) << i;
  }
  EXPECT_TRUE(room.admits(&large, "late", 16 * mib));
  room.take("late", 16 * mib);
  EXPECT_FALSE(room.admits(&other, "other", 4 * mib));
  room.give_back("peer 4", 4 * mib);
  EXPECT_TRUE(room.admits(&other, "other", 4 * mib));
}

TEST_F(tcp_pin_room_test, a_request_that_has_ended_keeps_nobody_waiting) {
  for (int i = 0; i < 56; ++i)
    room.take("peer " + std::to_string(i), 4 * mib);
  const int large = 0, other = 0;
  EXPECT_FALSE(room.admits(&large, "late", 16 * mib));
  room.give_back("peer 0", 4 * mib);
  EXPECT_FALSE(room.admits(&other, "other", 4 * mib));
  room.forget(&large);
  EXPECT_TRUE(room.admits(&other, "other", 4 * mib));
}

TEST_F(tcp_pin_room_test, what_its_own_peer_has_pinned_keeps_no_other_one_waiting) {
  room.take("a", 120 * mib);
  const int greedy = 0, other = 0;
  EXPECT_FALSE(room.admits(&greedy, "a", 32 * mib));
  EXPECT_TRUE(room.admits(&other, "b", 32 * mib));
}

TEST_F(tcp_pin_room_test, a_request_that_is_longer_than_all_room_is_served_alone) {
  EXPECT_TRUE(admits("a", 300 * mib));
  room.take("b", 1);
  EXPECT_FALSE(admits("a", 300 * mib));
  room.give_back("b", 1);
  EXPECT_EQ(room.used(), 0u);
  EXPECT_TRUE(admits("a", 300 * mib));
}

} // namespace
} // namespace peercache::rdma
