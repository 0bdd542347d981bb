#include "tests/client/actors/client_fixture.hpp"

namespace peercache::client {
namespace {

using committer_test = client_fixture;

TEST_F(committer_test, sends_what_was_filled_and_one_commit_at_a_time) {
  commit(0, 2, board->pool());
  commit(1, 3, board->pool());
  ASSERT_EQ(node.commits.size(), 1u);
  EXPECT_EQ(flushed(), std::nullopt);
  accept_commit();
  ASSERT_EQ(node.commits.size(), 2u);
  accept_commit();
  EXPECT_EQ(flushed(), 0u);
}

TEST_F(committer_test, everything_that_waits_for_a_node_that_is_gone_fails_at_once) {
  auto lost = board->pool();
  commit(0, 2, lost);
  commit(1, 3, lost);
  commit(2, 4, lost);
  ASSERT_EQ(node.commits.size(), 1u);
  lose_node();
  EXPECT_EQ(flushed(), 9u);
  EXPECT_EQ(node.commits.size(), 1u) << "a node that is gone is asked nothing";
}

TEST_F(committer_test, commits_for_the_new_node_do_not_wait_behind_those_of_the_old_one) {
  auto lost = board->pool();
  commit(0, 2, lost);
  commit(1, 3, lost);
  lose_node();
  pass(std::chrono::milliseconds(250)); // The next beat opens the session with the new process.
  ASSERT_NE(board->pool(), nullptr);
  ASSERT_NE(board->pool(), lost);
  commit(2, 1, lost); // A caller that was still copying.
  commit(3, 4, board->pool());
  ASSERT_EQ(node.commits.size(), 2u);
  EXPECT_EQ(node.committed[1].size(), 4 * sizeof(actors::filled_slot));
  accept_commit();
  EXPECT_EQ(flushed(), 6u);
}

TEST_F(committer_test, questions_for_slots_of_a_node_that_is_gone_are_answered_at_once) {
  auto asked_before = std::make_shared<slot_request>(board->pool(), std::string(4, '\1'));
  auto asked_after = std::make_shared<slot_request>(board->pool(), std::string(4, '\1'));
  caf::anon_send(committer, actors::reserve_atom_v, asked_before);
  settle();
  ASSERT_EQ(node.reservations.size(), 1u);
  lose_node();
  caf::anon_send(committer, actors::reserve_atom_v, asked_after);
  settle();
  EXPECT_EQ(node.reservations.size(), 1u);
  auto now = std::chrono::steady_clock::now();
  EXPECT_EQ(asked_before->wait(now).why_not, page_status::unreachable);
  EXPECT_EQ(asked_after->wait(now).why_not, page_status::unreachable);
}

} // namespace
} // namespace peercache::client
