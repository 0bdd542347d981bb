// Tests of commands about a node whose actors do not all answer it: what is not known is not 0.

#include "cli/command.hpp"
#include "discovery/view_codec.hpp"
#include "link/system_config.hpp"
#include "tests/client/actors/fake_node.hpp"

#include <caf/io/all.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace peercache::cli::silent_parts_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// A fake node on loopback, which is alone in its view.
class silent_parts : public testing::Test {
protected:
  void SetUp() override {
    auto published = system.middleman().publish(gateway, 0, "127.0.0.1");
    ASSERT_TRUE(published) << system.render(published.error());
    view.term = view.version = 1;
    view.members.push_back({.name = "fake",
                            .id = node_id_of("fake"),
                            .inc = {7, 7},
                            .host = "127.0.0.1",
                            .control_port = *published});
    view.masters = {"fake"};
    node.report.member = discovery::encode_member(view.members[0]);
    node.view = [this] { return discovery::encode_view(view); };
    node.has_disk = true;
    link::leave_actor_system();
  }
  void TearDown() override {
    {
      caf::scoped_actor self{system};
      self->send_exit(gateway, caf::exit_reason::user_shutdown);
      self->wait_for(gateway);
    }
    gateway = nullptr;
    link::leave_actor_system();
  }

  struct answer {
    exit_code code = exit_code::unreachable;
    std::string text;
    nlohmann::json json() const { return nlohmann::json::parse(text); }
  };
  /// Runs a command. Tries again when the node is not reached, because on a busy machine a dial may
  /// take longer than its limit of a second.
  answer ask(std::vector<std::string> words, const std::string& format = "json") const {
    const auto at = "127.0.0.1:" + std::to_string(view.members[0].control_port);
    words.insert(words.begin(), {"peercache", "--node", at, "--cluster", "test", "-o", format});
    std::vector<const char*> arguments;
    for (const auto& word : words)
      arguments.push_back(word.c_str());
    answer said;
    for (int tries = 0; tries < 5 && said.code == exit_code::unreachable; ++tries) {
      testing::internal::CaptureStdout();
      testing::internal::CaptureStderr();
      said.code = run(static_cast<int>(arguments.size()), arguments.data());
      testing::internal::GetCapturedStderr();
      said.text = testing::internal::GetCapturedStdout();
      link::leave_actor_system();
    }
    return said;
  }

  discovery::view view;
  client::fake_node node;
  link::system_config config{1};
  caf::actor_system system{config};
  link::gateway_actor gateway = system.spawn(client::run_fake_gateway, &node);
};

TEST_F(silent_parts, a_directory_that_does_not_answer_has_no_count_of_records) {
  node.report.silent = {link::node_parts::directory};
  const auto shown = ask({"shard", "show"});
  EXPECT_EQ(shown.code, exit_code::degraded);
  EXPECT_THAT(shown.text, HasSubstr("the directory of fake does not answer"));
  const auto listed = ask({"shard", "ls"});
  EXPECT_EQ(listed.code, exit_code::degraded);
  EXPECT_THAT(listed.text, HasSubstr("does not answer"));
  node.report.silent.clear();
  EXPECT_EQ(ask({"shard", "show"}).code, exit_code::ok);
  EXPECT_EQ(ask({"shard", "ls"}).code, exit_code::ok);
}

TEST_F(silent_parts, a_disk_tier_that_does_not_answer_is_neither_read_nor_evicted) {
  node.report.silent = {link::node_parts::disk};
  EXPECT_EQ(ask({"disk", "verify"}).code, exit_code::degraded);
  EXPECT_EQ(ask({"disk", "evict", "--all", "--yes"}).code, exit_code::degraded);
  EXPECT_EQ(node.evicted_bytes, 0u);
}

TEST_F(silent_parts, of_a_drain_in_which_a_part_is_silent_a_0_is_not_known) {
  view.members[0].draining = true;
  node.drain_answer = {};
  node.drain_answer.uncertain = true;
  const auto nothing = ask({"drain", "fake", "--yes"});
  EXPECT_EQ(nothing.code, exit_code::degraded);
  EXPECT_FALSE(nothing.json().value("complete", true));
  for (const auto* count : {"handed_over", "left", "unwritten_pages"})
    EXPECT_TRUE(nothing.json().value(count, nlohmann::json(0)).is_null()) << count;
  EXPECT_THAT(ask({"drain", "fake", "--yes"}, "table").text,
              AllOf(HasSubstr("an unknown number of"), HasSubstr("wait a minute")));
  node.drain_answer.given = 5;
  node.drain_answer.unwritten = 40;
  auto some = ask({"drain", "fake", "--yes"}).json();
  EXPECT_EQ(some["handed_over"], 5);
  EXPECT_EQ(some["unwritten_pages"], 40);
  EXPECT_TRUE(some["left"].is_null());
  node.drain_answer.uncertain = false;
  some = ask({"drain", "fake", "--yes"}).json();
  EXPECT_EQ(some["left"], 0);
}

TEST_F(silent_parts, a_drain_says_what_is_left_while_no_view_says_that_it_drains) {
  node.drain_answer.unwritten = 40;
  const auto said = ask({"drain", "fake", "--yes", "--wait", "100ms"}, "table");
  EXPECT_EQ(said.code, exit_code::degraded);
  EXPECT_THAT(said.text, AllOf(HasSubstr("no view says so yet"),
                               HasSubstr("40 pages are in its memory only")));
}

TEST_F(silent_parts, numbers_that_nobody_told_are_null_and_no_zeros) {
  node.report.samples.set(metrics::metric::pool_pages, 0);
  node.report.silent = {link::node_parts::directory, link::node_parts::membership};
  for (const auto& node_said : {ask({"status"}).json(), ask({"nodes"}).json()["nodes"][0]}) {
    EXPECT_EQ(node_said["pool_pages"], 0);
    for (const auto* unknown : {"directory_records", "draining", "leader", "members"})
      EXPECT_TRUE(node_said.value(unknown, nlohmann::json(0)).is_null()) << unknown;
    EXPECT_EQ(node_said["silent"].size(), 2u);
  }
  EXPECT_THAT(ask({"nodes"}, "table").text, testing::ContainsRegex("fake .* 0 +\\? +\\?"));
}

} // namespace
} // namespace peercache::cli::silent_parts_test
