// Tests of commands with which an operator looks for the cause of a fault: they list a node's
// clients and set log levels.

#include "fault_ring.hpp"

#include <fstream>
#include <iterator>
#include <unistd.h>

namespace peercache::real::operator_commands_test {
namespace {

class operator_commands : public fault_ring {
protected:
  std::string log_of(std::size_t index) const {
    std::ifstream file(folder_->path() / ("node-" + std::to_string(index + 1)) / "node.log");
    return {std::istreambuf_iterator<char>(file), {}};
  }
  nlohmann::json sessions(std::vector<std::string> words = {}) {
    words.insert(words.begin(), "sessions");
    last_ = ask_at(address(0), words);
    EXPECT_EQ(last_.exit_code, 0) << last_.output;
    return last_.json()["sessions"];
  }
  std::string level_of(std::size_t index) {
    return ask_at(address(0), {"log-level"}).json()["nodes"][index]["level"];
  }
};

} // namespace

TEST_F(operator_commands, sessions_list_each_client_with_its_process_and_what_it_did) {
  start({.count = 2});
  if (HasFatalFailure())
    return;
  EXPECT_TRUE(sessions().empty());
  auto client = client_of(1);
  put(*client, 0, 3);
  get(*client, 0);
  get(*client, 99);
  // Clients report what they counted about once a second.
  ASSERT_TRUE(within(milliseconds(15'000), [this] {
    const auto all = sessions();
    return all.size() == 1 && all[0]["hits"] == 1;
  })) << last_.output;
  const auto row = sessions()[0];
  EXPECT_EQ(row["node"], "node-2");
  EXPECT_EQ(row["pid"], ::getpid());
  EXPECT_EQ(row["version"], PEERCACHE_VERSION);
  EXPECT_EQ(row["sets"], 3);
  EXPECT_EQ(row["misses"]["not_found"], 1);
  EXPECT_FALSE(row["silent"]);
  EXPECT_EQ(row["slow_path"], "");
  ASSERT_TRUE(within(milliseconds(15'000), [this] {
    const auto spaces = sessions()[0]["spaces"];
    return spaces.size() == 1 && spaces[0]["stored"] == 3 && spaces[0]["asked"] == 2;
  })) << last_.output;
  EXPECT_TRUE(sessions({"node-1"}).empty());
  EXPECT_EQ(sessions({"node-2"}).size(), 1u);
  client.reset();
  EXPECT_TRUE(within(milliseconds(15'000), [this] { return sessions().empty(); })) << last_.output;
}

TEST_F(operator_commands, slow_names_the_node_that_a_call_waited_for) {
  start({.count = 2});
  if (HasFatalFailure())
    return;
  auto client = client_of(0);
  put(*client, 0, 3);
  auto far = client_of(1);
  get(*far, 0);
  // A put waits for only one owner of a key; the node that stays may hear of the page later, and
  // must know it before node 0 is frozen.
  ASSERT_TRUE(within(milliseconds(5000), [this] { return records_of(1) == 3u; }));
  freeze(0);
  get(*far, 1); // Ends at its deadline, because the page's node does not answer.
  node(0).process().signal(SIGCONT);
  const auto slowest = [this] {
    last_ = ask_at(address(1), {"slow", "node-2"});
    const auto calls = last_.json()["calls"];
    return calls.empty() ? nlohmann::json() : calls[0];
  };
  EXPECT_TRUE(within(milliseconds(15'000), [&] {
    const auto call = slowest();
    return !call.is_null() && call["call"] == "get" && call["peer"] == "node-1" &&
           call["waited_us"] > 100'000 && call["waited_us"] <= call["took_us"];
  })) << last_.output;
}

TEST_F(operator_commands, hot_and_big_keys_are_those_of_the_pools) {
  start({.count = 2});
  if (HasFatalFailure())
    return;
  auto client = client_of(0);
  put(*client, 0, 3);
  for (int i = 0; i < 20; ++i)
    get(*client, 1);
  EXPECT_TRUE(within(milliseconds(15'000), [this] {
    last_ = ask_at(address(0), {"hotkeys"});
    const auto pages = last_.json()["pages"];
    return last_.exit_code == 0 && !pages.empty() && pages[0]["reads"] >= 20 &&
           pages[0]["nodes"][0] == "node-1";
  })) << last_.output;
  const auto digest = last_.json()["pages"][0]["digest"].get<std::string>();
  EXPECT_EQ(ask_at(address(0), {"key", "locate", "--digest", digest}).exit_code, 0);
  EXPECT_TRUE(within(milliseconds(15'000), [this] {
    last_ = ask_at(address(0), {"bigkeys"});
    const auto said = last_.json();
    return said["pages"].size() == 3 && said["spaces"].size() == 1 &&
           said["spaces"][0]["pages"] == 3;
  })) << last_.output;
}

TEST_F(operator_commands, the_log_level_of_a_node_changes_while_it_runs) {
  start({.count = 2});
  if (HasFatalFailure())
    return;
  EXPECT_EQ(level_of(0), "info");
  EXPECT_EQ(level_of(1), "info");
  EXPECT_EQ(ask_at(address(0), {"log-level", "debug", "node-2"}).exit_code, 0);
  EXPECT_EQ(level_of(0), "info");
  EXPECT_EQ(level_of(1), "debug");
  EXPECT_TRUE(within(milliseconds(15'000), [this] {
    return log_of(1).find("the log level was info and is debug") != std::string::npos;
  })) << log_of(1);
  EXPECT_EQ(ask_at(address(0), {"log-level", "warn"}).exit_code, 0);
  EXPECT_EQ(level_of(0), "warn");
  EXPECT_EQ(level_of(1), "warn");
  EXPECT_EQ(ask_at(address(0), {"log-level", "loud"}).exit_code, 2);
  EXPECT_EQ(ask_at(address(0), {"log-level", "info", "nobody"}).exit_code, 1);
  EXPECT_EQ(level_of(0), "warn");
}

} // namespace peercache::real::operator_commands_test
