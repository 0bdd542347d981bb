// Tests of a node that logs to a file, which logrotate moves away.

#include "local_ring.hpp"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <iterator>
#include <optional>

namespace peercache::real::log_file_test {
namespace {

using testing::HasSubstr;
using testing::Not;

class log_file : public testing::Test {
protected:
  void SetUp() override {
    auto made = cli::run_folder::make("peercache-log");
    ASSERT_TRUE(made);
    folder_.emplace(std::move(*made));
    launch.folder = folder_->path() / "node";
    launch.flags = {"--log-file", at("log/node.log")};
  }

  std::string at(const char* name) const { return (folder_->path() / name).string(); }
  std::string text_of(const char* name) const {
    std::ifstream file(at(name));
    return {std::istreambuf_iterator<char>(file), {}};
  }
  bool comes(const char* name, const char* words) const {
    return within(milliseconds(10'000),
                  [&] { return text_of(name).find(words) != std::string::npos; });
  }

  cli::node_launch launch{
      .program = PEERCACHE_CLI_DIR "/peercache-node", .name = "alone", .pool_bytes = 32u << 20};

private:
  std::optional<cli::run_folder> folder_;
};

} // namespace

TEST_F(log_file, is_opened_again_at_a_hangup_and_stays_open_when_that_fails) {
  std::filesystem::create_directory(at("log"));
  auto node = cli::node_process::start(launch);
  ASSERT_TRUE(node) << node.error().message;
  EXPECT_TRUE(comes("log/node.log", " info alone ready: "));
  EXPECT_EQ(text_of("node/node.log"), "") << "nothing is left for stderr";

  std::filesystem::rename(at("log/node.log"), at("log/node.log.1"));
  node->process().signal(SIGHUP);
  EXPECT_TRUE(comes("log/node.log", "SIGHUP: the file of log.file was opened again"));
  EXPECT_THAT(text_of("log/node.log.1"), Not(HasSubstr("SIGHUP")));

  std::filesystem::rename(at("log"), at("moved"));
  node->process().signal(SIGHUP);
  EXPECT_TRUE(comes("moved/node.log", "SIGHUP: log.file: cannot open "));
  EXPECT_THAT(text_of("moved/node.log"),
              HasSubstr(at("log/node.log") +
                        ": No such file or directory (errno 2); the log goes on in the file that "
                        "is open"));
  EXPECT_EQ(node->stop(milliseconds(20'000)), 0);
  EXPECT_THAT(text_of("moved/node.log"), HasSubstr(" info alone stopped"));
}

TEST_F(log_file, is_opened_again_before_the_node_is_ready_too) {
  std::filesystem::create_directory(at("log"));
  launch.seeds = {"127.0.0.1:1"}; // No node answers there, so this node stays alone.
  auto node = cli::child_process::spawn(
      {.arguments = cli::arguments_of(launch), .without_environment = "PEERCACHE_"});
  ASSERT_TRUE(node) << node.error().message;
  ASSERT_TRUE(comes("log/node.log", "127.0.0.1:1"));
  std::filesystem::rename(at("log/node.log"), at("log/node.log.1"));
  node->signal(SIGHUP);
  EXPECT_TRUE(comes("log/node.log", "SIGHUP: the file of log.file was opened again"));
}

TEST_F(log_file, that_cannot_be_opened_keeps_the_node_from_starting) {
  const auto node = cli::node_process::start(launch);
  ASSERT_FALSE(node);
  EXPECT_THAT(node.error().message,
              HasSubstr("cannot start: log.file: cannot open " + at("log/node.log") +
                        ": No such file or directory (errno 2)"));
  launch.flags = {"--log-file", "node.log"};
  const auto relative = cli::node_process::start(launch);
  ASSERT_FALSE(relative);
  EXPECT_THAT(relative.error().message, HasSubstr("`log.file` is node.log"));
}

} // namespace peercache::real::log_file_test
