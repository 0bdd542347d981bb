#include "cli/command.hpp"
#include "net/tls_context.hpp"
#include "tests/support/certificates.hpp"

#include <filesystem>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

namespace peercache::cli::command_ca_test {
namespace {

using testing::HasSubstr;

struct outcome {
  exit_code code;
  std::string said;
  std::string fault;
};

outcome peercache(std::vector<std::string> words) {
  words.insert(words.begin(), "peercache");
  std::vector<const char*> texts;
  for (const auto& word : words)
    texts.push_back(word.c_str());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const auto code = run(static_cast<int>(texts.size()), texts.data());
  auto said = testing::internal::GetCapturedStdout();
  return {code, std::move(said), testing::internal::GetCapturedStderr()};
}

/// Tests that make a CA in a temporary folder; the CA that `folder` itself makes is not used.
class command_ca_test : public testing::Test {
protected:
  outcome issue(const std::string& role, const std::string& name) const {
    return peercache({"ca", "issue", role, name, "--ca", ca, "--out", out, "-o", "json"});
  }

  const certificates folder;
  const std::string ca = folder.folder() + "/mine";
  const std::string out = folder.folder() + "/out";
};

TEST_F(command_ca_test, makes_a_ca_and_certificates_that_a_node_and_a_client_take) {
  ASSERT_EQ(peercache({"ca", "init", ca, "--cluster", "prod"}).code, exit_code::ok);
  for (const std::string role : {"node", "client"}) {
    const auto made = issue(role, role + "-1");
    ASSERT_EQ(made.code, exit_code::ok) << made.fault;
    const auto told = nlohmann::json::parse(made.said);
    EXPECT_EQ(told["uri"], "peercache://prod/" + role + "/" + role + "-1");
    EXPECT_EQ(told["days"], 365);
    const auto context =
        net::tls_context::open({{told["cert"], told["key"], ca + "/ca.crt"}, "prod"});
    ASSERT_TRUE(context) << context.error().message;
    EXPECT_EQ(word_of((*context)->self().role), role);
  }
}

TEST_F(command_ca_test, does_not_replace_a_ca) {
  ASSERT_EQ(peercache({"ca", "init", ca}).code, exit_code::ok);
  const auto again = peercache({"ca", "init", ca});
  EXPECT_EQ(again.code, exit_code::failed);
  EXPECT_THAT(again.fault, HasSubstr("has a CA already"));
}

TEST_F(command_ca_test, says_what_is_missing) {
  EXPECT_THAT(issue("node", "n").fault, HasSubstr("peercache ca init"));
  EXPECT_EQ(peercache({"ca"}).code, exit_code::usage);
  EXPECT_EQ(peercache({"ca", "issue", "king", "n"}).code, exit_code::usage);
  EXPECT_EQ(peercache({"ca", "issue", "node", "n", "--days", "0"}).code, exit_code::usage);
}

} // namespace
} // namespace peercache::cli::command_ca_test
