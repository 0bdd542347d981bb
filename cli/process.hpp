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
  std::vector<std::string> arguments; ///< The program's path, then its arguments.
  /// Environment variables that the child gets besides the parent's.
  std::vector<std::pair<std::string, std::string>> environment;
  /// Variables of the parent that begin with this are not passed on; empty: all are.
  std::string without_environment;
  std::string stderr_path; ///< File to which stderr is appended; empty: the parent's own stderr.
  /// File descriptor of the network namespace that the child lives in; -1: the parent's own.
  int network = -1;
};

/// A child process, with its stdout in a pipe and its stdin open for as long as this object lives.
///
/// Threads: one at a time. The kernel kills the child with SIGKILL when the *thread* that spawned
/// it ends: so no child is left over however this process ends, and so `spawn` belongs to a thread
/// that lives as long as the child should. Ownership: owns the process and the pipes; the
/// destructor kills and reaps. Errors: results.
class child_process {
public:
  static result<child_process> spawn(const spawn_options& options);
  ~child_process();
  child_process(child_process&& other) noexcept;
  child_process& operator=(child_process&& other) noexcept;

  pid_t pid() const { return pid_; }

  /// The next line of the child's stdout, without the line end. Errors: `timed_out`, or `closed`
  /// when the child will say nothing more.
  result<std::string> read_line(std::chrono::milliseconds at_most);

  /// Writes a line to the child's stdin. @pre SIGPIPE is ignored, and `line` has no line end and is
  /// shorter than a pipe, 64 KiB. Errors: `closed` when the child has ended.
  result<void> write_line(const std::string& line);

  /// Sends the signal to the child, unless the child has been reaped.
  void signal(int number);

  /// Waits for the child's end. Returns the exit status as a shell shows it (128 + signal for a
  /// child that was killed), or nothing when it still runs after `at_most`.
  std::optional<int> wait(std::chrono::milliseconds at_most);

  /// Sends SIGKILL and waits until the child is gone.
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

/// The folder that this program lies in, by which programs that are installed together find each
/// other.
std::string own_folder();

/// Looks for a program of another package in PATH and returns its path. Errors: `not_found`, with
/// the package to install.
result<std::string> find_program(const std::string& name, const std::string& package);

/// Puts every thread of process `pid` (0: this one) on the given CPUs. Best effort: a thread that
/// ends during the call is not a fault.
result<void> pin_process(pid_t pid, const std::vector<int>& cpus);

/// The CPUs that this process may run on.
std::vector<int> usable_cpus();

} // namespace peercache::cli
