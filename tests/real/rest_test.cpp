// Tests of what a cluster costs whose clients ask for nothing: how often its threads wake.

#include "local_ring.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace peercache::real {
namespace {

using namespace std::chrono_literals;

/// Returns how often each thread of a process has gone to sleep so far, by the thread's id and
/// name.
std::map<std::string, std::uint64_t> sleeps_of(pid_t pid) {
  std::map<std::string, std::uint64_t> all;
  const auto tasks = std::filesystem::path("/proc") / std::to_string(pid) / "task";
  for (const auto& task : std::filesystem::directory_iterator(tasks)) {
    std::ifstream named(task.path() / "comm");
    std::string name;
    std::getline(named, name);
    std::ifstream status(task.path() / "status");
    constexpr std::string_view wanted = "voluntary_ctxt_switches:";
    for (std::string line; std::getline(status, line);)
      if (line.starts_with(wanted))
        all[task.path().filename().string() + " " + name] = std::stoull(line.substr(wanted.size()));
  }
  return all;
}

/// Whether this thread of the test's process was started by a client: such threads have names of
/// PeerCache or of CAF.
bool is_of_client(const std::string& thread) {
  return thread.find(" peercache-") != thread.npos || thread.find(" caf.") != thread.npos;
}

/// Returns how often the threads that `counts` accepts have gone to sleep between two results of
/// `sleeps_of`: the sum, and a text with the number of each thread.
std::pair<std::uint64_t, std::string> between(const std::map<std::string, std::uint64_t>& first,
                                              const std::map<std::string, std::uint64_t>& then,
                                              bool (*counts)(const std::string&)) {
  std::uint64_t sum = 0;
  std::string each;
  for (const auto& [thread, sleeps] : then) {
    if (!counts(thread))
      continue;
    const auto known = first.find(thread);
    const auto more = sleeps - (known == first.end() ? 0 : known->second);
    if (thread.find("peercache-clock") == thread.npos) // Wakes on a busy machine.
      sum += more;
    each += "\n  " + thread + ": " + std::to_string(more);
  }
  return {sum, each};
}

class rest : public local_ring {};

/// Load of other programs does not make threads of nodes and clients sleep more often, but a page
/// on its way or a change of the view does. So the first of several measured spans counts that is
/// quiet. A span is as long as the pause between two trials of the members' ports.
TEST_F(rest, nodes_and_clients_that_have_nothing_to_do_hardly_wake) {
  constexpr auto span = 8000ms;
  constexpr int spans_max = 4;
  constexpr std::uint64_t node_wakes_max = 8 * 28;
  constexpr std::uint64_t clients_wakes_max = 8 * 62;
  std::vector<std::unique_ptr<client::cache_client>> clients;
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    clients.push_back(client_of(i));
  for (const auto& each : clients)
    ASSERT_NE(each, nullptr);
  put(*clients[0], 0, 4);
  const auto all = [](const std::string&) { return true; };
  std::pair<std::uint64_t, std::string> node_least{~std::uint64_t{0}, {}};
  std::pair<std::uint64_t, std::string> clients_least{~std::uint64_t{0}, {}};
  const auto too_many = [&] {
    return node_least.first > node_wakes_max || clients_least.first > clients_wakes_max;
  };
  for (int i = 0; i < spans_max && too_many(); ++i) {
    const auto node_first = sleeps_of(node(0).process().pid());
    const auto clients_first = sleeps_of(::getpid());
    std::this_thread::sleep_for(span);
    node_least = std::min(node_least, between(node_first, sleeps_of(node(0).process().pid()), all));
    clients_least =
        std::min(clients_least, between(clients_first, sleeps_of(::getpid()), is_of_client));
  }
  EXPECT_LE(node_least.first, node_wakes_max) << node_least.second;
  EXPECT_LE(clients_least.first, clients_wakes_max) << clients_least.second;
  EXPECT_GT(node_least.first, 0u);
  EXPECT_GT(clients_least.first, 0u);
}

/// Operators read the names in `top -H`. Exempt are the kernel's threads of io_uring, and two
/// threads of CAF that no node uses: those of its printer and its middleman actor.
TEST_F(rest, each_thread_of_a_node_has_a_name_of_ours) {
  std::vector<std::string> foreign;
  EXPECT_TRUE(within(5000ms, [&] {
    foreign.clear();
    for (const auto& [thread, sleeps] : sleeps_of(node(0).process().pid()))
      if (const auto name = thread.substr(thread.find(' ') + 1);
          !name.starts_with("peercache") && !name.starts_with("iou-"))
        foreign.push_back(name);
    return foreign == std::vector<std::string>(2, "caf.actor");
  })) << testing::PrintToString(foreign);
}

} // namespace
} // namespace peercache::real
