#include "cli/doctor/probe.hpp"

#include "cli/doctor/check_ids.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace peercache::cli {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// A probe's process, and what it has said so far.
struct running_probe {
  pid_t pid = -1;
  int said_fd = -1; ///< -1: the process has said everything.
  std::string said;
};

/// Encodes the checks for the pipe from the probe's process: a JSON array of arrays.
std::string told(const std::vector<check>& checks) {
  auto all = nlohmann::json::array();
  for (const auto& one : checks)
    all.push_back({one.name, static_cast<int>(one.given), one.found, one.fix, one.id});
  return all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// Decodes the checks that a probe's process wrote; nothing when it did not write everything.
std::vector<check> heard(const std::string& text) {
  std::vector<check> checks;
  const auto all = nlohmann::json::parse(text, nullptr, false);
  if (!all.is_array())
    return {};
  for (const auto& one : all)
    checks.push_back({one[0].get<std::string>(), static_cast<verdict>(one[1].get<int>()),
                      one[2].get<std::string>(), one[3].get<std::string>(),
                      one[4].get<std::string>()});
  return checks;
}

[[noreturn]] void be_probe(const probe& work, int said_fd) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::string text;
  try {
    text = told(work.look());
  } catch (const std::exception& why) {
    text = told({{work.subject, verdict::fail, fmt::format("cannot be looked at: {}", why.what()),
                  work.fix, check_ids::no_answer}});
  }
  for (std::size_t at = 0; at < text.size();) {
    const auto written = ::write(said_fd, text.data() + at, text.size() - at);
    if (written <= 0)
      break;
    at += static_cast<std::size_t>(written);
  }
  ::_exit(0);
}

running_probe start(const probe& work) {
  std::array<int, 2> ends{-1, -1};
  running_probe started;
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    return started;
  started.pid = ::fork();
  if (started.pid == 0)
    be_probe(work, ends[1]);
  ::close(ends[1]);
  started.said_fd = ends[0];
  return started;
}

/// Reads what the probe's process has written; closes the descriptor at the end of its output.
void listen_to(running_probe& one) {
  std::array<char, 4096> buffer{};
  const auto bytes = ::read(one.said_fd, buffer.data(), buffer.size());
  if (bytes > 0) {
    one.said.append(buffer.data(), static_cast<std::size_t>(bytes));
  } else if (bytes == 0 || errno != EINTR) {
    ::close(one.said_fd);
    one.said_fd = -1;
  }
}

void listen_until(std::vector<running_probe>& all, steady_clock::time_point until) {
  for (;;) {
    std::vector<pollfd> waited;
    for (const auto& one : all)
      if (one.said_fd >= 0)
        waited.push_back({one.said_fd, POLLIN, 0});
    const auto left = std::chrono::ceil<milliseconds>(until - steady_clock::now());
    if (waited.empty() || left.count() <= 0)
      return;
    ::poll(waited.data(), waited.size(), static_cast<int>(left.count()));
    for (const auto& each : waited)
      if (each.revents != 0)
        listen_to(*std::find_if(all.begin(), all.end(),
                                [&](const running_probe& one) { return one.said_fd == each.fd; }));
  }
}

/// Ends the probe. A process that waits for a device cannot be killed before the device answers, so
/// it is left to the system then.
void end(running_probe& one) {
  const bool is_done = one.said_fd < 0;
  if (!is_done)
    ::close(one.said_fd);
  if (one.pid <= 0)
    return;
  ::kill(one.pid, SIGKILL);
  ::waitpid(one.pid, nullptr, is_done ? 0 : WNOHANG);
}

check no_answer(const probe& work, bool is_done, milliseconds deadline) {
  return {work.subject, verdict::fail,
          is_done ? "the look at it ended without a word"
                  : fmt::format("no answer within {:g} s: it hangs, or is very slow",
                                static_cast<double>(deadline.count()) / 1e3),
          work.fix, check_ids::no_answer};
}

std::vector<check>& checks_of(const std::string& group, std::vector<check_group>& groups) {
  for (auto& one : groups)
    if (one.name == group)
      return one.checks;
  return groups.emplace_back(check_group{group, {}}).checks;
}

} // namespace

std::vector<check_group> look_at_all(std::span<const probe> probes, milliseconds deadline) {
  const auto until = steady_clock::now() + deadline;
  std::vector<running_probe> running;
  running.reserve(probes.size());
  for (const auto& work : probes)
    running.push_back(start(work));
  listen_until(running, until);
  std::vector<check_group> groups;
  for (std::size_t i = 0; i < probes.size(); ++i) {
    const bool is_done = running[i].said_fd < 0;
    end(running[i]);
    auto found = is_done ? heard(running[i].said) : std::vector<check>();
    if (found.empty())
      found.push_back(no_answer(probes[i], is_done, deadline));
    auto& checks = checks_of(probes[i].group, groups);
    checks.insert(checks.end(), found.begin(), found.end());
  }
  return groups;
}

} // namespace peercache::cli
