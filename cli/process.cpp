#include "cli/process.hpp"

#include "common/assert.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sstream>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace peercache::cli {

namespace {

error system_error(const std::string& what) {
  return {errc::io_failed, what + ": " + std::strerror(errno)};
}

/// Everything that the child needs until its exec, made before the child starts: until then it
/// lives in this process's memory and may only call async-signal-safe functions.
struct exec_image {
  explicit exec_image(const spawn_options& options) : options_(options) {
    for (auto& argument : options_.arguments)
      argv.push_back(argument.data());
    argv.push_back(nullptr);
    for (char** entry = environ; *entry != nullptr; ++entry)
      if (!replaced(*entry))
        strings_.emplace_back(*entry);
    for (const auto& [name, value] : options_.environment)
      strings_.push_back(std::string{name}.append("=").append(value));
    for (auto& entry : strings_)
      envp.push_back(entry.data());
    envp.push_back(nullptr);
  }

  const char* stderr_path() const {
    return options_.stderr_path.empty() ? nullptr : options_.stderr_path.c_str();
  }

  int network() const { return options_.network; }

  std::vector<char*> argv;
  std::vector<char*> envp;

private:
  bool replaced(std::string_view entry) const {
    const auto& prefix = options_.without_environment;
    if (!prefix.empty() && entry.starts_with(prefix))
      return true;
    return std::any_of(
        options_.environment.begin(), options_.environment.end(),
        [&](const auto& variable) { return entry.starts_with(variable.first + "="); });
  }

  spawn_options options_;
  std::vector<std::string> strings_;
};

[[noreturn]] void become(const exec_image& image, int in, int out, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (image.network() >= 0 && ::setns(image.network(), CLONE_NEWNET) != 0)
    ::_exit(127);
  if (::getppid() != parent)
    // The parent died before the call of prctl, so no signal will end this child: it ends itself.
    ::_exit(127);
  // A child has a process group of its own: Ctrl-C at a terminal reaches only this program, which
  // ends its children in order.
  ::setpgid(0, 0);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::dup2(in, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  if (image.stderr_path() != nullptr) {
    int log = ::open(image.stderr_path(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log >= 0)
      ::dup2(log, STDERR_FILENO);
  }
  ::execve(image.argv[0], image.argv.data(), image.envp.data());
  ::_exit(127);
}

void close_if_open(int& fd) {
  if (fd >= 0)
    ::close(std::exchange(fd, -1));
}

} // namespace

result<child_process> child_process::spawn(const spawn_options& options) {
  PEERCACHE_ASSERT(!options.arguments.empty());
  if (::access(options.arguments[0].c_str(), X_OK) != 0)
    return system_error("cannot start " + options.arguments[0]);
  exec_image image(options);
  int in[2] = {-1, -1};
  int out[2] = {-1, -1};
  if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) {
    auto failed = system_error("pipe");
    close_if_open(in[0]);
    close_if_open(in[1]);
    return failed;
  }
  auto parent = ::getpid();
  child_process child;
  // vfork, not fork: a fork copies the page tables, which takes tens of milliseconds with the pools
  // of a few nodes mapped, and keeps all threads from faulting pages in during that time.
  child.pid_ = ::vfork();
  if (child.pid_ == 0)
    become(image, in[0], out[1], parent);
  close_if_open(in[0]);
  close_if_open(out[1]);
  child.stdin_fd_ = in[1];
  child.stdout_fd_ = out[0];
  if (child.pid_ < 0)
    return system_error("vfork");
  return child;
}

child_process::~child_process() {
  kill_now();
  close_if_open(stdin_fd_);
  close_if_open(stdout_fd_);
}

child_process::child_process(child_process&& other) noexcept {
  swap(other);
}

child_process& child_process::operator=(child_process&& other) noexcept {
  swap(other);
  return *this;
}

void child_process::swap(child_process& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(stdin_fd_, other.stdin_fd_);
  std::swap(stdout_fd_, other.stdout_fd_);
  std::swap(unread_, other.unread_);
  std::swap(exit_status_, other.exit_status_);
}

result<std::string> child_process::read_line(std::chrono::milliseconds at_most) {
  auto until = std::chrono::steady_clock::now() + at_most;
  while (true) {
    if (auto end = unread_.find('\n'); end != std::string::npos) {
      auto line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return line;
    }
    auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    pollfd wait{stdout_fd_, POLLIN, 0};
    auto ready = ::poll(&wait, 1, static_cast<int>(std::max<long>(0, left.count())));
    if (ready < 0 && errno == EINTR)
      continue;
    if (ready == 0)
      return {errc::timed_out, "the process said nothing in time"};
    char chunk[4096];
    auto got = ::read(stdout_fd_, chunk, sizeof chunk);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return {errc::closed, "the process ended"};
    unread_.append(chunk, static_cast<std::size_t>(got));
  }
}

result<void> child_process::write_line(const std::string& line) {
  const auto text = line + '\n';
  std::size_t written = 0;
  while (written < text.size()) {
    const auto count = ::write(stdin_fd_, text.data() + written, text.size() - written);
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return {errc::closed, "the process takes no more lines"};
    written += static_cast<std::size_t>(count);
  }
  return {};
}

void child_process::signal(int number) {
  if (pid_ > 0 && !exit_status_)
    ::kill(pid_, number);
}

void child_process::remember_exit(int wait_status) {
  exit_status_ = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

std::optional<int> child_process::wait(std::chrono::milliseconds at_most) {
  if (pid_ <= 0 || exit_status_)
    return exit_status_;
  // A pidfd becomes readable when its process ends; a process without one (no descriptor is left)
  // is looked at every few milliseconds.
  constexpr std::chrono::milliseconds step(10);
  int fd = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
  const auto until = std::chrono::steady_clock::now() + at_most;
  for (int status = 0;;) {
    if (::waitpid(pid_, &status, WNOHANG) == pid_) {
      remember_exit(status);
      break;
    }
    auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    if (left.count() <= 0)
      break;
    pollfd end{fd, POLLIN, 0};
    ::poll(&end, fd >= 0 ? 1 : 0,
           static_cast<int>((fd >= 0 ? left : std::min(left, step)).count()));
  }
  close_if_open(fd);
  return exit_status_;
}

void child_process::kill_now() {
  if (pid_ <= 0 || exit_status_)
    return;
  ::kill(pid_, SIGKILL);
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  remember_exit(status);
}

std::string own_folder() {
  std::error_code failed;
  auto path = std::filesystem::read_symlink("/proc/self/exe", failed);
  return failed ? std::string(".") : path.parent_path().string();
}

result<std::string> find_program(const std::string& name, const std::string& package) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (auto file = fmt::format("{}/{}", folder, name); ::access(file.c_str(), X_OK) == 0)
      return file;
  return {errc::not_found,
          fmt::format("{} is not on the PATH: the limit is measured with it (apt-get install {})",
                      name, package)};
}

result<void> pin_process(pid_t pid, const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int cpu : cpus)
    CPU_SET(static_cast<std::size_t>(cpu), &set);
  auto folder = "/proc/" + (pid == 0 ? std::string("self") : std::to_string(pid)) + "/task";
  std::error_code failed;
  std::filesystem::directory_iterator threads(folder, failed);
  if (failed)
    return {errc::io_failed, "cannot list the threads of process " + std::to_string(pid)};
  for (const auto& thread : threads) {
    auto id = static_cast<pid_t>(std::strtol(thread.path().filename().c_str(), nullptr, 10));
    if (::sched_setaffinity(id, sizeof set, &set) != 0 && errno != ESRCH)
      return system_error("cannot pin a thread");
  }
  return {};
}

std::vector<int> usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (::sched_getaffinity(0, sizeof set, &set) == 0)
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(static_cast<std::size_t>(cpu), &set))
        cpus.push_back(cpu);
  return cpus;
}

} // namespace peercache::cli
