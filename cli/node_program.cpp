#include "cli/node_program.hpp"

#include "cli/node_options.hpp"
#include "cli/node_process.hpp"
#include "cli/usage.hpp"
#include "common/hash_seed.hpp"
#include "common/log.hpp"
#include "config/load.hpp"
#include "config/process_sources.hpp"
#include "config/render.hpp"
#include "net/service_manager.hpp"

#include <CLI/CLI.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fmt/format.h>
#include <new>
#include <optional>
#include <string_view>
#include <sys/resource.h>
#include <system_error>
#include <thread>
#include <unistd.h>

namespace peercache::cli {

namespace {

constexpr int exit_ok = 0;
constexpr int exit_failed = 1;
constexpr int exit_usage = 2;
/// The signal by which the node tells this program that it has failed; sent by anybody else, it
/// changes nothing.
constexpr int failed_signal = SIGUSR2;
/// Longest wait for a service manager that does not read what it is told.
constexpr std::chrono::milliseconds manager_patience{2000};

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

/// Signals that `serve` waits for once its node is ready.
sigset_t all_signals() {
  auto set = stop_signals();
  sigaddset(&set, SIGHUP);
  sigaddset(&set, failed_signal);
  return set;
}

/// Takes the next signal of `set`, or nothing after `at_most`; signals are blocked in all threads,
/// so they arrive only here. A wait that was interrupted, because the process was stopped and went
/// on, is continued for the time that is left.
std::optional<int> signal_within(const sigset_t& set, std::chrono::milliseconds at_most) {
  using std::chrono::steady_clock;
  const auto end = steady_clock::now() + at_most;
  for (auto left = at_most; left.count() >= 0;
       left = std::chrono::ceil<std::chrono::milliseconds>(end - steady_clock::now())) {
    const timespec wait{left.count() / 1000, left.count() % 1000 * 1'000'000};
    if (const int number = sigtimedwait(&set, nullptr, &wait); number > 0)
      return number;
    if (errno != EINTR)
      break;
  }
  return std::nullopt;
}

/// Opens the log's file again, and reads the certificates again, as a SIGHUP asks for. The signal
/// never ends the process: tools that rotate logs send it to whatever writes one.
void reload(actors::node& node) {
  const auto reopened = reopen_log();
  if (!reopened)
    log::warn("SIGHUP: log.file: {}; the log goes on in the file that is open",
              reopened.error().message);
  else
    log::info("SIGHUP: {}", *reopened ? "the file of log.file was opened again"
                                      : "the log is on stderr (log.file)");
  if (!node.read_certificates_again())
    log::info(
        "SIGHUP: there are no certificates, or those in use stay; nothing else is read again");
}

/// Makes a thread that ends the process when the drain hangs or a second signal comes; whatever is
/// left in shared memory then is cleaned up by the next start.
void watch_over_drain(const actors::node& node, std::chrono::milliseconds drain_timeout) {
  std::thread([drain_timeout, stopping_at = node.stopping_at()] {
    auto again = signal_within(stop_signals(), drain_timeout + std::chrono::seconds(5));
    log::error("{} ({}); leaving at once",
               again ? "told to stop again while draining" : "draining took too long",
               stopping_at->load());
    ::_exit(exit_failed);
  }).detach();
}

void say_ready(const discovery::member& self) {
  ready_line line{self.control_port, self.data_port, self.http_port, ::getpid()};
  fmt::print("{}\n", line.to_string());
  std::fflush(stdout);
}

/// Tells the service manager the new state, if there is a service manager. A failure is only
/// logged.
void tell_manager(std::string_view state) {
  if (auto told =
          net::tell_service_manager(net::service_manager_address(), state, manager_patience);
      !told)
    log::warn("{}; it may take this node for one that does not start or end", told.error().message);
}

/// Ends the process when the node has failed: such a node may answer nobody, and the cluster is
/// better off without it. /readyz tells of the failure already.
void leave_if_failed(const actors::node& node) {
  if (node.failure().empty())
    return;
  log::error("this node has failed ({}); leaving at once", node.failure());
  ::_exit(exit_failed);
}

/// Waits for a signal to stop, while the node does its work.
int wait_for_stop_signal(actors::node& node) {
  node.when_failed([] { ::kill(::getpid(), failed_signal); });
  for (;;) {
    leave_if_failed(node);
    const int number = signal_within(all_signals(), std::chrono::hours(1)).value_or(failed_signal);
    if (number == SIGHUP)
      reload(node);
    else if (number != failed_signal)
      return number;
  }
}

void say_what_lacks(const char* why) noexcept {
  try {
    log::error("cannot go on: {}; the host gives this process no more threads or memory "
               "(`ulimit -a`, the cgroup's pids.max and memory.max)",
               why);
  } catch (...) { // There is not even memory for a log line.
    constexpr std::string_view text = "peercache-node: error: out of memory\n";
    (void)!::write(STDERR_FILENO, text.data(), text.size());
  }
}

/// Ends the process with an error line where the host has no thread or no memory for it. Any other
/// exception that nobody catches is a fault of the program, and aborts.
[[noreturn]] void end_for_exception() noexcept {
  try {
    if (auto thrown = std::current_exception())
      std::rethrow_exception(thrown);
  } catch (const std::bad_alloc& why) {
    say_what_lacks(why.what());
    ::_exit(exit_failed);
  } catch (const std::system_error& why) {
    say_what_lacks(why.what());
    ::_exit(exit_failed);
  } catch (...) {
  }
  std::abort();
}

/// Runs a node until a signal to stop comes; prints the ready line once the node is ready.
int serve(const config::node_config& config, const actors::node_decorators& decorators) {
  auto started = actors::node::start(config, decorators);
  if (!started) {
    log::error("cannot start: {}", to_string(started.error()));
    if (!config.log.file.empty()) // The user looks at stderr, not into the log's file.
      fmt::print(stderr, "peercache-node: cannot start: {}\n", to_string(started.error()));
    return exit_failed;
  }
  auto& node = **started;
  std::optional<int> signal;
  while (!signal && !node.ready()) {
    leave_if_failed(node);
    const auto number = signal_within(all_signals(), std::chrono::milliseconds(10));
    if (number == SIGHUP)
      reload(node);
    else if (number != failed_signal)
      signal = number;
  }
  if (!signal) {
    say_ready(node.self());
    tell_manager("READY=1");
    log::info("ready: control {}:{}, data port {}, http port {}", node.self().host,
              node.self().control_port, node.self().data_port, node.self().http_port);
    signal = wait_for_stop_signal(node);
  }
  tell_manager("STOPPING=1");
  log::info("signal {}: draining for at most {} ms", *signal, config.drain.timeout.count());
  watch_over_drain(node, config.drain.timeout);
  // Ctrl-C (SIGINT) means that the user is done with the node, so its pool is freed. SIGTERM may
  // come from a service manager that starts the next node at once, so the pool is kept.
  using after = actors::node::pool_after;
  node.drain_and_stop(*signal == SIGTERM ? after::kept : after::freed);
  log::info("stopped");
  return exit_ok;
}

/// Lets this process have as many open files as it may: the usual limit of 1024 is for programs
/// with select(2), and less than the connections that a node takes.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

result<config::loaded_config> configuration(const node_options& options) {
  auto sources = config::sources_of_process(
      options.config_path.empty() ? std::nullopt : std::optional(options.config_path));
  if (!sources)
    return sources.error();
  sources->flags = options.flags.given();
  return config::load(*sources);
}

int run_with(const node_options& options, const config::loaded_config& loaded,
             const actors::node_decorators& decorators) {
  if (options.print_config) {
    fmt::print("{}", config::render_effective(loaded));
    return exit_ok;
  }
  if (options.check_config) {
    for (const auto& warning : loaded.warnings)
      fmt::print(stderr, "peercache-node: warning: {}\n", warning);
    fmt::print("configuration ok\n");
    return exit_ok;
  }
  const auto& config = loaded.config;
  if (options.discard_pool) {
    const auto freed = actors::node::discard_pools(config);
    fmt::print("{} {} without a process freed\n", freed, freed == 1 ? "pool" : "pools");
    return exit_ok;
  }
  raise_descriptor_limit();
  init_log(config.node.name, std::string(config::to_string(config.log.level)), config.log.json);
  if (!config.log.file.empty())
    if (auto opened = log_to_file(config.log.file, config.node.name, config.log.json); !opened) {
      log::error("cannot start: log.file: {}; name a file that this user may write",
                 opened.error().message);
      return exit_failed;
    }
  for (const auto& warning : loaded.warnings)
    log::warn("{}", warning);
  return serve(config, decorators);
}

} // namespace

int run_node_program(int argc, char** argv, const actors::node_decorators& decorators) {
  // Signals are blocked before any thread starts, so that all threads inherit the mask and only
  // `serve` takes signals.
  const auto signals = all_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  for (const int number : {SIGPIPE, SIGUSR1, SIGUSR2})
    std::signal(number, SIG_IGN);
  std::set_terminate(end_for_exception);
  hash_seed::draw();
  CLI::App app;
  node_options options(app);
  auto understood = parse_words(app, argc, argv);
  if (!understood) {
    fmt::print(stderr, "peercache-node: {}\n", understood.error().message);
    return exit_usage;
  }
  if (!*understood)
    return exit_ok;
  auto loaded = configuration(options);
  if (!loaded) {
    fmt::print(stderr, "peercache-node: {}\n", loaded.error().message);
    return exit_usage;
  }
  return run_with(options, *loaded, decorators);
}

} // namespace peercache::cli
