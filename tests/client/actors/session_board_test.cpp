#include "tests/client/actors/client_fixture.hpp"

#include <algorithm>

namespace peercache::client {
namespace {

using session_board_test = client_fixture;
using enum session_board::readiness;

TEST_F(session_board_test, is_settled_when_every_member_was_tried) {
  fake_shard shard;
  auto directory = system.spawn(run_fake_shard, &shard);
  link::topology cluster;
  auto show = [&] {
    board->set_topology(std::make_shared<link::topology>(cluster));
    return board->ready();
  };
  EXPECT_EQ(board->ready(), no_node);
  cluster.peers.emplace_back().self = *discovery::decode_member(node.welcome.member);
  cluster.peers.emplace_back().self.inc = {9, 9};
  EXPECT_EQ(show(), no_node);
  cluster.peers[0].directory = directory;
  EXPECT_EQ(show(), linking) << "a look-up would call the other one unreachable";
  EXPECT_TRUE(board->wait_ready(std::chrono::steady_clock::now()));
  cluster.peers[1].tried = true;
  EXPECT_EQ(show(), settled) << "out of reach";
  cluster.peers[1].tried = false;
  cluster.peers[1].directory = directory;
  EXPECT_EQ(show(), settled) << "linked";
  board->set_pool(nullptr);
  EXPECT_EQ(board->ready(), no_node);
  EXPECT_FALSE(board->wait_ready(std::chrono::steady_clock::now()));
  cluster.peers.clear();
  show();
  stop(directory);
}

TEST_F(session_board_test, remembers_the_members_that_a_later_view_has_not) {
  using names = std::vector<std::string>;
  const auto show = [&](const names& there) {
    auto next = std::make_shared<link::topology>();
    auto& members = next->view.members;
    for (const auto& name : there) {
      auto& made = members.emplace_back();
      made.name = name;
      made.id = node_id_of(name);
    }
    std::sort(members.begin(), members.end(),
              [](const auto& a, const auto& b) { return a.id < b.id; });
    board->set_topology(next);
    return board->nodes_gone(*next);
  };
  EXPECT_EQ(show({"a", "b"}), names{});
  EXPECT_EQ(show({"a"}), names{"b"});
  EXPECT_EQ(show({"c"}), (names{"a", "b"}));
  EXPECT_EQ(show({"a", "b", "c"}), names{}) << "they are back";
}

TEST_F(session_board_test, a_call_goes_by_the_epochs_of_the_pool_also_when_its_node_is_gone) {
  memory.epochs().raise(space_named("a"), 3);
  EXPECT_EQ(board->start_call().epochs.epoch_of(space_named("a")), 3u);
  EXPECT_NE(board->start_call().own, nullptr);
  board->set_pool(nullptr);
  const auto without = board->start_call();
  EXPECT_EQ(without.own, nullptr);
  EXPECT_EQ(without.epochs.epoch_of(space_named("a")), 3u);
}

TEST_F(session_board_test, a_call_reads_no_pool_whose_node_has_left_its_cluster) {
  memory.epochs().raise(space_named("a"), 3);
  memory.epochs().close();
  const auto start = board->start_call();
  EXPECT_EQ(start.own, nullptr);
  EXPECT_EQ(start.left, memory.owner()) << "nor asks that node for pages";
  EXPECT_EQ(start.epochs.epoch_of(space_named("a")), 3u);
  memory.epochs().open();
  EXPECT_NE(board->start_call().own, nullptr);
  EXPECT_EQ(board->start_call().left, incarnation{});
}

} // namespace
} // namespace peercache::client
