// Tests of the command `peercache clear`, run by a script and by a person at a terminal.

#include "local_ring.hpp"

#include <csignal>
#include <pty.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace peercache::real::clear_command_test {
namespace {

class clear_command : public local_ring {
protected:
  finished_program ask(std::vector<std::string> words) {
    words.insert(words.end(), {"-o", "json", "--cluster", cluster(), "--node", address(0)});
    return run_cli(std::move(words));
  }
  void put_greeting() {
    ASSERT_EQ(
        ask({"put", "greeting", "--value", "hello", "--namespace", "llama,v1"}).json()["status"],
        "stored");
  }
  bool is_there() { return ask({"exists", "greeting", "--namespace", "llama,v1"}).exit_code == 0; }
  /// Runs `peercache clear` at a terminal where somebody types `answer`. Returns the
  /// exit status of the command.
  int type(const std::string& answer) {
    int terminal = -1;
    const auto child = ::forkpty(&terminal, nullptr, nullptr, nullptr);
    if (child == 0) {
      const std::string program = PEERCACHE_CLI_DIR "/peercache";
      const auto name = cluster();
      const auto node = address(0);
      ::execl(program.c_str(), "peercache", "clear", "llama", "--cluster", name.c_str(), "--node",
              node.c_str(), nullptr);
      ::_exit(127);
    }
    std::string said;
    char bytes[256];
    while (said.find("Type yes") == std::string::npos) {
      const auto more = ::read(terminal, bytes, sizeof bytes);
      if (more <= 0)
        break;
      said.append(bytes, static_cast<std::size_t>(more));
    }
    EXPECT_NE(said.find("'llama'"), std::string::npos) << said;
    EXPECT_EQ(::write(terminal, answer.data(), answer.size()), static_cast<ssize_t>(answer.size()));
    while (::read(terminal, bytes, sizeof bytes) > 0) {
    }
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    ::close(terminal);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
};

TEST_F(clear_command, withdraws_a_space_when_it_is_told_yes) {
  put_greeting();
  EXPECT_EQ(ask({"clear", "llama"}).exit_code, 2) << "there is nobody to ask";
  EXPECT_TRUE(is_there());
  const auto told = ask({"clear", "llama", "--dry-run"});
  EXPECT_EQ(told.exit_code, 0) << told.output;
  EXPECT_TRUE(told.json()["dry_run"].get<bool>());
  EXPECT_TRUE(is_there()) << "a dry run does nothing";
  const auto other = ask({"clear", "v1", "--yes"});
  EXPECT_EQ(other.exit_code, 0) << other.output;
  EXPECT_TRUE(is_there()) << "the first field is the space";
  const auto said = ask({"clear", "llama", "--yes"});
  EXPECT_EQ(said.exit_code, 0) << said.output;
  EXPECT_EQ(said.json()["space"], "llama");
  EXPECT_EQ(said.json()["certain"], true);
  EXPECT_FALSE(is_there());
}

TEST_F(clear_command, asks_at_a_terminal) {
  put_greeting();
  EXPECT_EQ(type("no\n"), 1);
  EXPECT_TRUE(is_there());
  EXPECT_EQ(type("yes\n"), 0);
  EXPECT_FALSE(is_there());
}

TEST_F(clear_command, ends_with_3_where_it_is_not_certain_and_names_the_nodes) {
  freeze(2);
  const auto said = ask({"clear", "llama", "--yes", "--wait", "300ms"});
  EXPECT_EQ(said.exit_code, 3) << said.output;
  EXPECT_EQ(said.json()["certain"], false);
  EXPECT_EQ(said.json()["unaware"], nlohmann::json({"node-3"}));
  node(2).process().signal(SIGCONT);
  EXPECT_TRUE(within(milliseconds(30'000), [&] {
    return ask({"clear", "llama", "--yes"}).exit_code == 0;
  }));
}

} // namespace
} // namespace peercache::real::clear_command_test
