// Tests of a node that gets SIGTERM, and of what may happen while it drains.

#include "local_ring.hpp"

#include <csignal>
#include <fstream>
#include <iterator>
#include <thread>

namespace peercache::real {
namespace {

class node_drain : public local_ring {
protected:
  std::string log_of(std::size_t index) {
    std::ifstream lines(node(index).launch().folder / "node.log");
    return {std::istreambuf_iterator<char>(lines), {}};
  }
  /// Sends SIGTERM to the node, and waits until its log says that it drains.
  void ask_to_stop(std::size_t index) {
    node(index).ask_to_stop();
    ASSERT_TRUE(within(milliseconds(10'000), [&] {
      return log_of(index).find("draining for at most") != std::string::npos;
    }));
  }
};

TEST_F(node_drain, goes_on_after_the_process_was_stopped_for_a_while) {
  ASSERT_NO_FATAL_FAILURE(ask_to_stop(2));
  auto& leaver = node(2).process();
  for (int again = 0; again < 20 && !leaver.wait(milliseconds(2)); ++again) {
    leaver.signal(SIGSTOP);
    std::this_thread::sleep_for(milliseconds(2));
    leaver.signal(SIGCONT);
  }
  EXPECT_EQ(node(2).stop(milliseconds(20'000)), 0);
}

/// The test freezes the two other nodes, so that the drain takes all the time that it may take.
TEST_F(node_drain, ends_at_a_second_signal_and_says_what_it_was_at) {
  freeze(0);
  freeze(1);
  ASSERT_NO_FATAL_FAILURE(ask_to_stop(2));
  node(2).process().signal(SIGTERM);
  EXPECT_EQ(node(2).process().wait(milliseconds(20'000)), 1);
  const auto log = log_of(2);
  EXPECT_NE(log.find("told to stop again while draining (writing pages to disk, giving"),
            std::string::npos)
      << log;
  for (std::size_t index : {0, 1})
    node(index).process().signal(SIGCONT);
}

} // namespace
} // namespace peercache::real
