// Tests of what a session tells its node of the blocks on its engine's GPU, and when.

#include "tests/client/actors/client_fixture.hpp"

#include "client/session/gpu_telling.hpp"

#include <chrono>
#include <span>
#include <vector>

namespace peercache::client {
namespace {

class gpu_telling_test : public client_fixture {
protected:
  const std::vector<page_key> blocks{key_space{}.key_of("a"), key_space{}.key_of("b")};

  void note(const gpu_news& news) {
    if (board->gpu.note(news))
      caf::anon_send(actor, link::gpu_atom_v, link::from_here{});
    settle();
  }
  /// Waits until the session has told the node all that `news` has.
  void tell(const gpu_news& news) {
    note(news);
    pass(gpu_pause);
    pass(gpu_pause);
  }
};

TEST_F(gpu_telling_test, each_node_is_told_what_lies_on_the_gpu) {
  note({.stored = blocks});
  EXPECT_TRUE(node.on_gpu.empty()) << "news is gathered first";
  note({.evicted = std::span(blocks).first(1)});
  pass(gpu_pause);
  ASSERT_EQ(node.on_gpu.size(), 1u);
  EXPECT_EQ(node.on_gpu[0].stored, std::vector{blocks[1].prefix()});
  pass(gpu_pause);
  tell({.stored = std::span(blocks).first(1), .rank = 2});
  ASSERT_EQ(node.on_gpu.size(), 2u);
  EXPECT_EQ(node.on_gpu[1].stored, std::vector{blocks[0].prefix()});
  EXPECT_EQ(node.on_gpu[1].rank, 2u);
  EXPECT_FALSE(node.on_gpu[1].anew);
  lose_node();
  pass(std::chrono::milliseconds(250)); // The next beat opens a session.
  pass(gpu_pause);
  ASSERT_EQ(node.on_gpu.size(), 3u);
  EXPECT_TRUE(node.on_gpu[2].anew);
  EXPECT_EQ(node.on_gpu[2].stored.size(), 2u);
}

TEST_F(gpu_telling_test, what_a_lost_report_evicts_is_told_again) {
  tell({.stored = blocks});
  node.loses_gpu = true;
  tell({.evicted = blocks});
  node.loses_gpu = false;
  pass(gpu_failed_pause / 2);
  EXPECT_EQ(node.on_gpu.size(), 1u) << "a beat does not end the pause";
  pass(gpu_failed_pause);
  ASSERT_EQ(node.on_gpu.size(), 2u);
  EXPECT_TRUE(node.on_gpu[1].anew);
  EXPECT_TRUE(node.on_gpu[1].stored.empty());
}

TEST_F(gpu_telling_test, a_node_that_has_refused_is_told_later) {
  node.refuses_gpu = true;
  tell({.stored = blocks});
  node.refuses_gpu = false;
  pass(gpu_refused_pause / 2);
  EXPECT_TRUE(node.on_gpu.empty());
  pass(gpu_refused_pause);
  ASSERT_EQ(node.on_gpu.size(), 1u);
  EXPECT_EQ(node.on_gpu[0].stored.size(), blocks.size());
}

} // namespace
} // namespace peercache::client
