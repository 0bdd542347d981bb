// Tests of what `peercache status` and `peercache nodes` say of a node that is gone, until it is
// back.

#include "survival_ring.hpp"

namespace peercache::real {

namespace {

constexpr milliseconds long_enough(30'000);

class gone_node : public survival_ring {
protected:
  /// Three nodes with a long expiry, because other tests run beside this one and slow the nodes.
  const plan three{.count = 3, .expiry = milliseconds(2000)};

  finished_program ask(const std::string& command, std::vector<std::string> more = {}) {
    std::vector<std::string> words{command};
    words.insert(words.end(), more.begin(), more.end());
    for (const auto& word : {std::string("-o"), std::string("json"), std::string("--cluster"),
                             cluster(), std::string("--node"), address(0)})
      words.push_back(word);
    return run_cli(std::move(words));
  }
  bool well() { return ask("status").exit_code == 0; }
  /// Whether the status names node `index` as the only gone node, and the command fails.
  bool is_gone(std::size_t index) {
    const auto status = ask("status");
    const auto said = status.json();
    return status.exit_code == 3 && said["gone"].size() == 1 &&
           said["gone"][0]["name"] == node(index).launch().name;
  }
};

} // namespace

TEST_F(gone_node, a_killed_node_keeps_the_cluster_from_being_well_until_it_is_back) {
  start_ring(three);
  if (HasFatalFailure())
    return;
  ASSERT_TRUE(within(long_enough, [this] { return well(); })) << ask("status").output;
  kill(2);
  ASSERT_TRUE(within(long_enough, [this] { return is_gone(2); })) << ask("status").output;
  EXPECT_FALSE(within(milliseconds(10'000), [this] { return !is_gone(2); }))
      << "nothing has mended it: " << ask("status").output;
  const auto faults = ask("status").json()["faults"].dump();
  EXPECT_NE(faults.find("is gone since"), std::string::npos) << faults;
  EXPECT_NE(faults.find("peercache forget " + node(2).launch().name), std::string::npos) << faults;
  const auto nodes = ask("nodes");
  EXPECT_EQ(nodes.exit_code, 3);
  EXPECT_EQ(nodes.json()["nodes"].back()["state"], "gone") << nodes.output;
  spawn_again(2);
  EXPECT_TRUE(within(long_enough, [this] { return well(); })) << ask("status").output;
  EXPECT_EQ(ask("nodes").exit_code, 0);
}

TEST_F(gone_node, an_operator_forgets_it_or_it_stops_in_order) {
  start_ring(three);
  if (HasFatalFailure())
    return;
  EXPECT_EQ(ask("forget", {node(2).launch().name}).exit_code, 2) << "it is a member";
  freeze(2);
  ASSERT_TRUE(within(long_enough, [this] { return is_gone(2); })) << ask("status").output;
  const auto forgotten = ask("forget", {node(2).launch().name});
  EXPECT_EQ(forgotten.exit_code, 0) << forgotten.output;
  EXPECT_TRUE(ask("status").json()["gone"].empty()) << ask("status").output;
  EXPECT_EQ(ask("forget", {node(2).launch().name}).exit_code, 1) << "nobody of the name is gone";
  thaw(2);
  ASSERT_TRUE(within(long_enough, [this] { return one_view({0, 1, 2}); }));
  EXPECT_EQ(node(2).stop(long_enough), 0);
  ASSERT_TRUE(within(long_enough, [this] { return one_view({0, 1}); }));
  EXPECT_TRUE(ask("status").json()["gone"].empty()) << ask("status").output;
}

} // namespace peercache::real
