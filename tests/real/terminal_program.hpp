#pragma once

#include <cstdlib>
#include <gtest/gtest.h>
#include <pty.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace peercache::real {

/// The program `peercache` at a pseudo terminal, where a test reads and types. Threads: one at a
/// time. Reads block until the program writes or ends; only ctest's time-out bounds them.
class terminal_program {
public:
  /// @param columns width of the terminal
  explicit terminal_program(std::vector<std::string> words, unsigned short columns = 200) {
    const winsize size{.ws_row = 50, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    words.insert(words.begin(), PEERCACHE_CLI_DIR "/peercache");
    std::vector<char*> argv;
    for (auto& word : words)
      argv.push_back(word.data());
    argv.push_back(nullptr);
    child_ = ::forkpty(&terminal_, nullptr, nullptr, &size);
    if (child_ == 0) {
      ::unsetenv("COLUMNS");
      ::execv(argv.front(), argv.data());
      ::_exit(127);
    }
  }
  ~terminal_program() {
    if (child_ > 0)
      finish();
  }
  terminal_program(const terminal_program&) = delete;
  terminal_program& operator=(const terminal_program&) = delete;

  /// Reads until the program has written `part`. Returns false when the program ended before.
  bool says(const std::string& part) {
    while (said_.find(part) == std::string::npos)
      if (!read_more())
        return false;
    return true;
  }
  void type(const std::string& text) {
    EXPECT_EQ(::write(terminal_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  /// Reads the program's remaining output, and waits for its end. Returns the exit status.
  int finish() {
    while (read_more()) {
    }
    int status = -1;
    EXPECT_EQ(::waitpid(child_, &status, 0), child_);
    ::close(terminal_);
    child_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  /// All that the program has written; its lines end with "\r\n".
  const std::string& said() const { return said_; }

private:
  bool read_more() {
    char bytes[1024];
    const auto more = ::read(terminal_, bytes, sizeof bytes);
    if (more <= 0)
      return false;
    said_.append(bytes, static_cast<std::size_t>(more));
    return true;
  }

  int terminal_ = -1;
  pid_t child_ = -1;
  std::string said_;
};

} // namespace peercache::real
