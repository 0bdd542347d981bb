#include "cli/doctor/check_ids.hpp"
#include "cli/doctor/doctor_files.hpp"
#include "tests/cli/doctor/doctor_checks.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace peercache::cli::doctor_files_test {

namespace {

namespace fs = std::filesystem;

/// A temporary folder in place of `/`, and the configuration of a node there.
class doctor_files : public testing::Test {
protected:
  void SetUp() override {
    std::string name = (fs::path(testing::TempDir()) / "doctor-files-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root = name;
    fs::create_directories(root / "run");
    config.net.bind = "127.0.0.1";
    config.net.control_port = 31998;
  }
  void TearDown() override { fs::remove_all(root); }

  check judged(const char* id) const {
    return with_id_of(judge_files_of_node(gather_files_facts(config, root)), id);
  }
  void make_folder(const char* name, mode_t mode) const {
    fs::create_directories(root / name);
    ASSERT_EQ(::chmod((root / name).c_str(), mode), 0);
  }

  fs::path root;
  config::node_config config;
};

} // namespace

TEST_F(doctor_files, a_configuration_without_them_has_nothing_to_mend) {
  for (const auto& one : judge_files_of_node(gather_files_facts(config, root)).checks) {
    EXPECT_LE(one.given, verdict::info) << one.name << ": " << one.found;
    EXPECT_TRUE(one.fix.empty()) << one.fix;
  }
  EXPECT_TRUE(
      contains(judged(check_ids::socket_folder).found, "/run/peercache/127.0.0.1-31998.sock"));
  EXPECT_FALSE(fs::exists(root / "run/peercache")) << "a look makes nothing";
}

TEST_F(doctor_files, a_group_that_this_host_does_not_have_fails) {
  config.node.group = "no-such-group";
  const auto given = judged(check_ids::node_group);
  EXPECT_EQ(given.given, verdict::fail);
  EXPECT_TRUE(contains(given.found, "no group `no-such-group`")) << given.found;
  EXPECT_TRUE(contains(given.fix, "groupadd --system no-such-group")) << given.fix;
}

TEST_F(doctor_files, a_group_of_this_user_will_do_and_of_others_only_for_root) {
  config.node.group = std::to_string(::getegid());
  EXPECT_EQ(judged(check_ids::node_group).given, verdict::ok);
  EXPECT_EQ(judged(check_ids::socket_folder).given, verdict::ok);
  files_facts facts;
  facts.group = "engines";
  facts.why_no_group = "this user has to be in the group 7";
  const auto given = with_id_of(judge_files_of_node(facts), check_ids::node_group);
  EXPECT_EQ(given.given, verdict::fail);
  EXPECT_TRUE(contains(given.fix, "usermod -aG engines")) << given.fix;
}

TEST_F(doctor_files, a_socket_folder_fails_where_it_can_be_neither_used_nor_made) {
  const auto finds = [&](const std::string& folder, const char* words) {
    config.net.socket_folder = folder;
    const auto given = judged(check_ids::socket_folder);
    EXPECT_EQ(given.given, verdict::fail) << folder;
    EXPECT_TRUE(contains(given.found, words)) << given.found;
    EXPECT_TRUE(contains(given.fix, "net.socket_folder")) << given.fix;
  };
  make_folder("open", 0770);
  make_folder("sticky", 01777);
  make_folder("own", 0700);
  std::ofstream(root / "file") << "a file";
  finds("/open", "other users may write to it");
  finds("/sticky", "other users may write to it");
  finds("/file", "it is not a folder");
  finds("/nowhere/sockets", "No such file");
  finds("/file/sockets", "Not a directory");
  const std::string long_name(90, 'x');
  make_folder(long_name.c_str(), 0700);
  finds("/" + long_name, "longer than a socket's may be");
  for (const char* fit : {"/own", "/new"}) {
    config.net.socket_folder = fit;
    EXPECT_EQ(judged(check_ids::socket_folder).given, verdict::ok) << fit;
  }
}

TEST_F(doctor_files, a_node_that_needs_no_socket_starts_without_one) {
  make_folder("run/peercache", 0777);
  ::setenv("XDG_RUNTIME_DIR", "/nowhere", 1);
  make_folder("tmp", 01777);
  make_folder(("tmp/peercache-" + std::to_string(::geteuid())).c_str(), 0777);
  const auto given = judged(check_ids::socket_folder);
  EXPECT_EQ(given.given, verdict::warn) << given.found;
  EXPECT_TRUE(contains(given.found, "come by the control port")) << given.found;
  config.tls.certificate = "/tls/node.crt";
  EXPECT_EQ(judged(check_ids::socket_folder).given, verdict::fail) << "TLS needs it";
  ::unsetenv("XDG_RUNTIME_DIR");
}

TEST_F(doctor_files, a_log_fails_where_its_file_can_be_neither_opened_nor_made) {
  make_folder("log/folder", 0700);
  std::ofstream(root / "log/old.log") << "a line";
  config.log.file = "/log/folder";
  EXPECT_TRUE(contains(judged(check_ids::log_file).found, "Is a directory"));
  config.log.file = "/nowhere/node.log";
  const auto given = judged(check_ids::log_file);
  EXPECT_EQ(given.given, verdict::fail);
  EXPECT_TRUE(contains(given.found, "/nowhere/node.log cannot be opened: No such file"))
      << given.found;
  EXPECT_TRUE(contains(given.fix, "LogsDirectory=peercache")) << given.fix;
  for (const char* fit : {"/log/new.log", "/log/old.log"}) {
    config.log.file = fit;
    EXPECT_EQ(judged(check_ids::log_file).given, verdict::ok) << fit;
  }
  EXPECT_FALSE(fs::exists(root / "log/new.log")) << "a look makes nothing";
}

} // namespace peercache::cli::doctor_files_test
