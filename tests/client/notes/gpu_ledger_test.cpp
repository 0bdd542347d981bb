// Tests of what a client knows of the blocks on its engine's GPU, and of what it reports to its
// node.

#include "client/notes/gpu_ledger.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace peercache::client::gpu_ledger_test {
namespace {

std::vector<page_key> keys(std::size_t first, std::size_t count) {
  std::vector<page_key> made;
  for (auto i = first; i < first + count; ++i)
    made.push_back(key_space{}.key_of(std::to_string(i)));
  return made;
}

bool store(gpu_ledger& to, const std::vector<page_key>& some) {
  return to.note({.stored = some});
}
bool evict(gpu_ledger& to, const std::vector<page_key>& some) {
  return to.note({.evicted = some});
}

/// A node that takes all reports, and so knows which blocks the GPU holds.
struct told_node {
  std::set<std::uint64_t> held;
  std::size_t reports = 0;

  void hear_all(gpu_ledger& from) {
    while (const auto report = from.next()) {
      ++reports;
      EXPECT_LE(report->evicted.size() + report->stored.size(), link::gpu_report::keys_max);
      if (report->anew)
        held.clear();
      for (const auto prefix : report->evicted)
        held.erase(prefix);
      held.insert(report->stored.begin(), report->stored.end());
    }
  }
  bool has(const std::vector<page_key>& some) const {
    return std::all_of(some.begin(), some.end(),
                       [this](const auto& key) { return held.contains(key.prefix()); });
  }
};

TEST(gpu_ledger, tells_what_changed_and_wakes_once) {
  gpu_ledger ledger;
  told_node node;
  EXPECT_TRUE(store(ledger, keys(0, 3)));
  EXPECT_FALSE(store(ledger, keys(3, 1))) << "whoever tells is awake";
  EXPECT_FALSE(evict(ledger, keys(0, 1)));
  node.hear_all(ledger);
  EXPECT_EQ(node.held.size(), 3u);
  EXPECT_TRUE(node.has(keys(1, 3)));
  EXPECT_FALSE(store(ledger, keys(1, 3))) << "there is nothing new";
  EXPECT_FALSE(evict(ledger, keys(50, 2))) << "nor with keys that the GPU did not hold";
  EXPECT_TRUE(evict(ledger, keys(1, 1)));
  node.hear_all(ledger);
  EXPECT_EQ(node.held.size(), 2u);
}

TEST(gpu_ledger, what_comes_back_before_anybody_was_told_is_held) {
  gpu_ledger ledger;
  told_node node;
  store(ledger, keys(0, 1));
  node.hear_all(ledger);
  evict(ledger, keys(0, 1));
  store(ledger, keys(0, 1));
  evict(ledger, keys(0, 1));
  node.hear_all(ledger);
  EXPECT_TRUE(node.held.empty());
  evict(ledger, keys(0, 1));
  store(ledger, keys(0, 1));
  node.hear_all(ledger);
  EXPECT_TRUE(node.has(keys(0, 1)));
}

TEST(gpu_ledger, tells_another_node_all_of_it) {
  gpu_ledger ledger;
  told_node first, second;
  EXPECT_FALSE(ledger.begin_again()) << "there is nothing to tell";
  store(ledger, keys(0, 5));
  first.hear_all(ledger);
  evict(ledger, keys(0, 1));
  EXPECT_TRUE(ledger.begin_again());
  second.held = {42};
  second.hear_all(ledger);
  EXPECT_EQ(second.held.size(), 4u);
  EXPECT_TRUE(second.has(keys(1, 4)));
}

TEST(gpu_ledger, a_lost_report_of_what_was_evicted_is_made_good) {
  gpu_ledger ledger;
  told_node node;
  store(ledger, keys(0, 2));
  node.hear_all(ledger);
  evict(ledger, keys(0, 2));
  ASSERT_TRUE(ledger.next()) << "the node does not get this one";
  ledger.tell_again();
  node.hear_all(ledger);
  EXPECT_TRUE(node.held.empty());
  EXPECT_TRUE(store(ledger, keys(0, 1))) << "whoever tells has found the end";
}

TEST(gpu_ledger, an_emptied_gpu_holds_nothing_but_what_comes_after) {
  gpu_ledger ledger;
  told_node node;
  store(ledger, keys(0, 5));
  node.hear_all(ledger);
  const auto next = keys(7, 1);
  EXPECT_TRUE(ledger.note({.all_evicted = true, .stored = next, .rank = 3}));
  const auto report = ledger.next();
  ASSERT_TRUE(report);
  EXPECT_TRUE(report->anew);
  EXPECT_EQ(report->rank, 3u);
  EXPECT_EQ(report->stored, std::vector{next[0].prefix()});
}

TEST(gpu_ledger, cuts_its_reports) {
  gpu_ledger ledger;
  told_node node;
  store(ledger, keys(0, 2 * link::gpu_report::keys_max + 1));
  node.hear_all(ledger);
  EXPECT_EQ(node.reports, 3u);
  EXPECT_EQ(node.held.size(), 2 * link::gpu_report::keys_max + 1);
}

TEST(gpu_ledger, keeps_to_its_bounds_and_stays_true) {
  gpu_ledger ledger(10);
  told_node node;
  store(ledger, keys(0, 15));
  EXPECT_EQ(ledger.left_out(), 5u);
  node.hear_all(ledger);
  EXPECT_EQ(node.held.size(), 10u);
  // Makes more changes without a report than the ledger keeps.
  for (std::size_t i = 0; i < 100; ++i) {
    evict(ledger, keys(i, 1));
    store(ledger, keys(i + 10, 1));
  }
  node.hear_all(ledger);
  EXPECT_EQ(node.held.size(), 10u);
  EXPECT_TRUE(node.has(keys(100, 10)));
}

} // namespace
} // namespace peercache::client::gpu_ledger_test
