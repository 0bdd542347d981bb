// Tests of a node that was stopped in good order and starts again alone, after the other nodes have
// cleared a space.

#include "clear_cluster.hpp"
#include "survival_ring.hpp"

#include <csignal>
#include <memory>
#include <string>

namespace peercache::real::clear_test {
namespace {

/// Nodes whose pages outlive their processes: on a disk (parameter true) or in a kept pool (false).
class left_behind : public survival_ring, public testing::WithParamInterface<bool> {
protected:
  static constexpr std::size_t first = 0, second = 1;
  std::unique_ptr<cache_client> engine_;

  void TearDown() override {
    engine_.reset();
    survival_ring::TearDown();
  }

  /// Stops the first node. Then the second node makes a clear that is certain, and is killed.
  void stop_clear_die() {
    plan wanted;
    wanted.count = 2;
    wanted.expiry = milliseconds(2000); // Long, because other tests run beside this one.
    wanted.disk = GetParam();
    wanted.keep_pools = !GetParam();
    start_ring(wanted);
    if (HasFatalFailure())
      return;
    engine_ = client_of(first);
    for (const auto space : {cleared, other})
      set(*engine_, space, 0, pages, 0);
    ASSERT_TRUE(engine_->flush(clock::now() + patience));
    for (const auto space : {cleared, other})
      ASSERT_EQ(hits_of(*engine_, space, 0, pages, 0), pages);
    // A node that joined just now may not have a connection to each member yet, and says goodbye to
    // those alone to which it has.
    ASSERT_TRUE(within(
        patience, [this] { return engine_->clear("unused", clock::now() + clear_time).certain; }));
    engine_.reset();
    EXPECT_EQ(node(first).stop(milliseconds(20'000)), 0);
    ASSERT_TRUE(within(patience, [this] { return sees(second, 1); }));
    const auto said = client_of(second)->clear(cleared, clock::now() + clear_time);
    ASSERT_TRUE(said.certain) << said.why_not;
    kill(second);
  }
  static constexpr milliseconds patience{30'000};
};

TEST_P(left_behind, no_page_of_before_is_a_hit_at_a_node_that_starts_alone) {
  stop_clear_die();
  if (HasFatalFailure())
    return;
  ASSERT_TRUE(restart(first)); // The node serves when `restart` has returned.
  engine_ = client_of(first);
  EXPECT_EQ(found_by(*engine_, cleared, 0, pages), 0u);
  EXPECT_EQ(hits_of(*engine_, cleared, 0, pages, 0), 0u);
  ASSERT_TRUE(within(patience, [this] {
    set(*engine_, cleared, 100, 1, 1);
    return engine_->flush(clock::now() + patience) && hits_of(*engine_, cleared, 100, 1, 1) == 1;
  })) << "the space can be used again";
}

/// All nodes are down at the same time, so their pages are kept on disks: on one host, a node that
/// starts frees the kept pools of all dead nodes.
class left_behind_together : public left_behind {};

TEST_P(left_behind_together,
       what_was_not_cleared_is_a_hit_as_soon_as_those_it_left_behind_are_back) {
  stop_clear_die();
  if (HasFatalFailure())
    return;
  spawn_again(first);
  EXPECT_TRUE(within(patience, [this] {
    const auto said = run_cli({"status", "--node", address(first), "--cluster", cluster()});
    return said.output.find("it was stopped while others went on") != std::string::npos &&
           said.output.find("node-2") != std::string::npos;
  })) << "why it waits";
  ASSERT_TRUE(restart(second));
  ASSERT_TRUE(within(patience, [this] { return is_ready(first); }));
  engine_ = client_of(first);
  EXPECT_EQ(found_by(*engine_, cleared, 0, pages), 0u);
  EXPECT_EQ(hits_of(*engine_, cleared, 0, pages, 0), 0u);
  EXPECT_TRUE(within(patience, [this] { return hits_of(*engine_, other, 0, pages, 0) == pages; }));
}

INSTANTIATE_TEST_SUITE_P(pages_outlive, left_behind, testing::Bool(), [](const auto& info) {
  return info.param ? "on_a_disk" : "in_a_kept_pool";
});
INSTANTIATE_TEST_SUITE_P(pages_outlive, left_behind_together, testing::Values(true));

} // namespace
} // namespace peercache::real::clear_test
