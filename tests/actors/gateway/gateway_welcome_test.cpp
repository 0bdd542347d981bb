#include "actors/gateway/gateway_welcome.hpp"

#include "common/fault_ids.hpp"
#include "common/log.hpp"
#include "link/command_caller.hpp"
#include "tests/actors/gateway/gateway_fixture.hpp"

#include <gmock/gmock.h>

namespace peercache::actors::gateway_welcome_test {
namespace {

using testing::HasSubstr;

class gateway_welcome : public gateway_fixture {
protected:
  session_listener client = system.spawn(silent_client, &draining);

  gateway_welcome() { spawn_gateway(usual_options()); }
  ~gateway_welcome() override {
    stop(gateway);
    stop(client);
  }

  bool lets_in(const std::string& name) {
    return static_cast<bool>(ask<session_welcome>(gateway, session_atom_v, name, client));
  }
};

/// A node reports callers that it refuses for long, because its own operator may be waiting for the
/// caller to join.
TEST_F(gateway_welcome, the_report_names_whose_hello_is_refused_for_long) {
  const auto greet = [this](const std::string& cluster, const std::string& who) {
    EXPECT_FALSE(ask<peer_welcome>(gateway, hello_atom_v, wire_version, cluster, who));
  };
  const auto faults = [this] {
    return ask<node_report>(gateway, status_atom_v)->membership.faults;
  };
  greet("elsewhere", "node-9\x1b[2J");
  greet("elsewhere", link::command_caller);
  EXPECT_TRUE(faults().empty());
  pass(turned_away::patience);
  greet("elsewhere", "node-9\x1b[2J");
  greet("elsewhere", link::command_caller);
  greet("elsewhere", "once");
  const auto said = faults();
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said.front().id, fault_ids::join_turned_away);
  EXPECT_EQ(said.front().what, "refuses 'node-9?[2J': its cluster.name is 'elsewhere'");
  pass(turned_away::kept_for + std::chrono::seconds(1));
  EXPECT_TRUE(faults().empty());
}

TEST_F(gateway_welcome, lets_no_client_in_whose_name_people_cannot_be_shown) {
  EXPECT_TRUE(lets_in("client-7/0.3.0"));
  EXPECT_TRUE(lets_in(std::string(256, 'x')));
  EXPECT_FALSE(lets_in(std::string(257, 'x')));
  for (const auto* name : {"a\x1b[2J", "a\nb", "a\xff", "a\x7f"})
    EXPECT_FALSE(lets_in(name)) << name;
}

/// Changes the log level from `from` to `to`. Returns what is logged about the change.
std::string trace_of(const std::string& from, const std::string& to) {
  const auto previous = spdlog::default_logger();
  testing::internal::CaptureStderr();
  init_log("node-1", from, false);
  EXPECT_EQ(change_log_level(to), to);
  EXPECT_EQ(log_level(), to);
  spdlog::set_default_logger(previous);
  return testing::internal::GetCapturedStderr();
}

TEST(change_log_level, leaves_a_trace_whatever_the_levels_are) {
  for (const char* from : {"debug", "info", "warn", "error", "off"})
    for (const char* to : {"trace", "info", "error", "off"})
      if (from != std::string(to)) {
        EXPECT_THAT(trace_of(from, to), HasSubstr("was " + std::string(from) + " and is " + to));
      }
  EXPECT_EQ(trace_of("info", "info"), "");
}

TEST(change_log_level, leaves_the_level_for_an_unknown_word_and_for_none) {
  const auto before = log_level();
  EXPECT_EQ(change_log_level("loud"), before);
  EXPECT_EQ(change_log_level(""), before);
}

} // namespace
} // namespace peercache::actors::gateway_welcome_test
