// Tests of the command `peercache key explain`, which tells what a reader at a node would do with a
// key, and why it would miss.

#include "local_ring.hpp"

#include <csignal>

namespace peercache::real {
namespace {

class key_explain : public local_ring {
protected:
  void SetUp() override {
    local_ring::SetUp();
    const auto put =
        run_cli({"put", "page", "--value", "hello", "--cluster", cluster(), "--node", address(1)});
    ASSERT_EQ(put.exit_code, 0);
  }
  /// Runs `peercache key explain` for this key at the first node.
  finished_program explain(const std::string& key) {
    return run_cli(
        {"key", "explain", key, "-o", "json", "--cluster", cluster(), "--node", address(0)});
  }
};

TEST_F(key_explain, names_the_page_and_where_a_hit_comes_from) {
  const auto told = explain("page");
  EXPECT_EQ(told.exit_code, 0);
  const auto facts = told.json();
  EXPECT_EQ(facts["status"], "hit");
  EXPECT_EQ(facts["origin"], "other_host");
  EXPECT_EQ(facts["owners"].size(), 2u);
  EXPECT_EQ(facts["view_version"], client_of(0)->view().version);
  ASSERT_EQ(facts["locations"].size(), 1u);
  const auto& where = facts["locations"][0];
  EXPECT_EQ(where["node"], node(1).launch().name);
  EXPECT_TRUE(where["holder_in_view"].get<bool>());
  EXPECT_EQ(where["tier"], "memory");
  EXPECT_EQ(where["length_bytes"], 5);
  EXPECT_TRUE(generation{where["generation"].get<std::uint64_t>()}.readable());
  EXPECT_NE(facts["verdict"].get<std::string>().find("a hit"), std::string::npos);
}

TEST_F(key_explain, says_why_a_get_misses) {
  const auto absent = explain("no such page");
  EXPECT_EQ(absent.exit_code, 1);
  EXPECT_EQ(absent.json()["status"], "not_found");
  EXPECT_TRUE(absent.json()["locations"].empty());
  EXPECT_NE(absent.json()["verdict"].get<std::string>().find("never put"), std::string::npos);

  freeze(1);
  const auto stopped = explain("page");
  node(1).process().signal(SIGCONT);
  EXPECT_EQ(stopped.exit_code, 3) << "not all could be asked";
  EXPECT_EQ(stopped.json().value("silent", std::vector<std::string>{}),
            std::vector<std::string>{node(1).launch().name});
  const auto verdict = stopped.json()["verdict"].get<std::string>();
  EXPECT_TRUE(verdict.find("did not send it in time") != std::string::npos ||
              verdict.find("cannot be reached") != std::string::npos)
      << verdict;
  EXPECT_NE(verdict.find("see peercache status"), std::string::npos) << "what to do";
  EXPECT_NE(verdict.find("how the page left " + node(1).launch().name + " is not known"),
            std::string::npos)
      << verdict;
}

TEST_F(key_explain, says_how_a_page_left_and_when) {
  const auto removed = run_cli({"rm", "page", "--cluster", cluster(), "--node", address(1)});
  ASSERT_EQ(removed.exit_code, 0) << removed.output;
  const auto told = explain("page");
  EXPECT_EQ(told.exit_code, 1);
  const auto losses = told.json()["losses"];
  ASSERT_EQ(losses.size(), 1u) << told.output;
  EXPECT_EQ(losses[0]["how"], "removed");
  EXPECT_EQ(losses[0]["node"], node(1).launch().name);
  EXPECT_LT(losses[0]["age_ms"], 60'000);
  EXPECT_NE(told.json()["verdict"].get<std::string>().find("removed from"), std::string::npos);
}

} // namespace
} // namespace peercache::real
