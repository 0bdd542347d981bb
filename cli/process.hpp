#pragma once

#include "common/result.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace peercache::cli {

struct spawn_options {
  std::vector<std::string> arguments; ///< The first is the program's path.
  /// Variables besides the parent's own.
  std::vector<std::pair<std::string, std::string>> environment;
  std::string without_environment; ///< The parent's variables that start with this stay behind;
                                   ///< empty: none.
  std::string stderr_path;         ///< Appended to; empty: the parent's own stderr.
  int network = -1; ///< An open network namespace that the child lives in; -1: the parent's own.
};

/// A process that we started, with its stdout in a pipe and its stdin open until we are gone.
///
/// Threads: one at a time. The kernel kills the child with SIGKILL when the *thread* that spawned
/// it ends: so nothing is left over whatever becomes of us, and so `spawn` belongs to a thread that
/// lives as long as the child should. Ownership: of the process and the pipes; the destructor kills
/// and reaps. Errors: results.
class child_process {
public:
  static result<child_process> spawn(const spawn_options& options);
  ~child_process();
  child_process(child_process&& other) noexcept;
  child_process& operator=(child_process&& other) noexcept;

  pid_t pid() const { return pid_; }

  /// The next line of its stdout, without the line end. `timed_out`, or `closed` when it will say
  /// nothing more.
  result<std::string> read_line(std::chrono::milliseconds at_most);

  /// Writes a line to its stdin. @pre SIGPIPE is ignored, and `line` has no line end and is shorter
  /// than a pipe, 64 KiB. Errors: `closed` when it has ended.
  result<void> write_line(const std::string& line);

  /// Sends a signal, if the process has not been reaped.
  void signal(int number);

  /// Waits for the end. Returns the exit status as a shell shows it (128 + signal for one that was
  /// killed), nothing while it runs after `at_most`.
  std::optional<int> wait(std::chrono::milliseconds at_most);

  /// SIGKILL, and waits until it is gone.
  void kill_now();

private:
  child_process() = default;
  void swap(child_process& other) noexcept;
  void remember_exit(int wait_status);

  pid_t pid_ = -1;
  int stdin_fd_ = -1;
  int stdout_fd_ = -1;
  std::string unread_;
  std::optional<int> exit_status_;
};

/// The folder of this program, so that programs that are installed together find each other.
std::string own_folder();

/// The path of a program of another package, found in PATH. Errors: `not_found`, with what to
/// install.
result<std::string> find_program(const std::string& name, const std::string& package);

/// Puts every thread of process `pid` (0: this one) on the given CPUs. Best effort: a thread that
/// ends meanwhile is no fault.
result<void> pin_process(pid_t pid, const std::vector<int>& cpus);

/// The CPUs this process may run on.
std::vector<int> usable_cpus();

} // namespace peercache::cli
