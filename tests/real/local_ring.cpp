#include "local_ring.hpp"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>
#include <unistd.h>

namespace peercache::real {

finished_program run_program(std::vector<std::string> arguments, milliseconds at_most) {
  finished_program finished;
  auto child = cli::child_process::spawn({.arguments = std::move(arguments)});
  if (!child) {
    ADD_FAILURE() << to_string(child.error());
    return finished;
  }
  auto until = clock::now() + at_most;
  while (true) {
    auto line = child->read_line(std::chrono::ceil<milliseconds>(until - clock::now()));
    if (!line)
      break;
    finished.output += *line + "\n";
  }
  finished.exit_code =
      child->wait(std::chrono::ceil<milliseconds>(until - clock::now())).value_or(-1);
  return finished;
}

finished_program run_cli(std::vector<std::string> words) {
  words.insert(words.begin(), PEERCACHE_CLI_DIR "/peercache");
  return run_program(std::move(words));
}

bool within(milliseconds at_most, const std::function<bool()>& condition) {
  for (auto until = clock::now() + at_most; clock::now() < until;) {
    if (condition())
      return true;
    std::this_thread::sleep_for(milliseconds(10));
  }
  return condition();
}

void local_ring::SetUp() {
  auto folder = cli::run_folder::make("peercache-real");
  ASSERT_TRUE(folder) << folder.error().message;
  folder_ = std::make_unique<cli::run_folder>(std::move(*folder));
  cli::local_cluster_options options{.count = 3, .folder = folder_->path()};
  options.prototype = prototype_;
  options.certificate_of = certificate_of_;
  if (prototype_.program.empty())
    options.prototype.program = PEERCACHE_CLI_DIR "/peercache-node";
  auto nodes = cli::start_local_cluster(options);
  ASSERT_TRUE(nodes) << nodes.error().message;
  nodes_ = std::move(*nodes);
}

void local_ring::TearDown() {
  if (HasFailure() && folder_)
    folder_->keep();
  for (auto& each : nodes_)
    each.process().signal(SIGCONT); // Wakes frozen nodes, which would not end at SIGTERM.
  cli::stop_nodes(nodes_, milliseconds(10'000));
}

std::unique_ptr<client::cache_client> local_ring::client_of(std::size_t index,
                                                            milliseconds timeout) {
  return client_at(nodes_[index].launch().host, nodes_[index].ports().control_port, timeout);
}

std::unique_ptr<client::cache_client>
local_ring::client_at(const std::string& host, std::uint16_t control_port, milliseconds timeout) {
  client::client_options options;
  options.node_host = host;
  options.node_port = control_port;
  options.cluster = cluster();
  options.timeout = timeout;
  auto connected = client::cache_client::connect(options);
  if (!connected) {
    ADD_FAILURE() << connected.error().message;
    return nullptr;
  }
  return std::move(*connected);
}

void freeze_process(cli::child_process& process) {
  auto pid = std::to_string(process.pid());
  process.signal(SIGSTOP);
  auto all_stopped = [&] {
    for (const auto& task : std::filesystem::directory_iterator("/proc/" + pid + "/task")) {
      std::ifstream file(task.path() / "stat");
      std::string stat{std::istreambuf_iterator<char>(file), {}};
      // In /proc/PID/task/TID/stat, the state follows the thread's name, which is in brackets and
      // may contain brackets.
      auto name_end = stat.rfind(')');
      if (name_end == std::string::npos || stat.compare(name_end, 3, ") T") != 0)
        return false;
    }
    return true;
  };
  ASSERT_TRUE(within(milliseconds(5000), all_stopped));
}

result<void> local_ring::restart(std::size_t index) {
  std::vector<std::string> seeds;
  for (const auto& each : nodes_)
    seeds.push_back(each.address());
  return nodes_[index].restart(seeds);
}

page_key local_ring::key_of(std::uint32_t id) {
  static const key_space space;
  return space.key_of("real-" + std::to_string(id));
}

page_status local_ring::put_one(client::cache_client& client, std::uint32_t id,
                                std::uint32_t version) {
  std::vector<std::byte> bytes(page_bytes);
  bench::fill_page(id, version, bytes);
  client::const_part part{bytes.data(), page_bytes};
  client::set_page page{key_of(id), {&part, 1}};
  client::page_result result;
  client.set({&page, 1}, {&result, 1});
  return result.status;
}

void local_ring::put(client::cache_client& client, std::uint32_t first, std::uint32_t count,
                     std::uint32_t version) {
  for (auto id = first; id < first + count; ++id)
    ASSERT_EQ(to_string(put_one(client, id, version)), to_string(page_status::stored))
        << "page " << id;
  auto unpublished = client.flush(clock::now() + publish_patience);
  ASSERT_TRUE(unpublished);
  ASSERT_EQ(unpublished->failed, 0u);
}

local_ring::read_page local_ring::get(client::cache_client& client, std::uint32_t id,
                                      milliseconds deadline) {
  std::vector<std::byte> bytes(page_bytes, std::byte{0xa5});
  page_part part{bytes.data(), page_bytes};
  client::get_page page{key_of(id), {&part, 1}};
  read_page read;
  read.begin = clock::now();
  client.get({&page, 1}, {&read.result, 1}, read.begin + deadline);
  read.took = clock::now() - read.begin;
  read.check = bench::check_page(id, bytes);
  return read;
}

std::uint32_t local_ring::count_told(client::cache_client& client, std::uint32_t first,
                                     std::uint32_t count, page_status wanted) {
  std::vector<page_key> keys;
  for (auto id = first; id < first + count; ++id)
    keys.push_back(key_of(id));
  std::vector<client::page_result> results(count);
  client.exists(keys, results);
  return static_cast<std::uint32_t>(
      std::count_if(results.begin(), results.end(),
                    [wanted](const auto& page) { return page.status == wanted; }));
}

testing::AssertionResult local_ring::took_at_most(milliseconds bound, clock::time_point begin,
                                                  clock::time_point end) const {
  if (end - begin <= bound)
    return testing::AssertionSuccess();
  const auto stood = stalls_.stood_still(begin, end);
  if (end - begin - stood <= bound)
    return testing::AssertionSuccess();
  const auto in_ms = [](clock::duration time) {
    return std::chrono::duration_cast<milliseconds>(time).count();
  };
  return testing::AssertionFailure() << "took " << in_ms(end - begin) << " ms and not "
                                     << bound.count() << "; all stood still for " << in_ms(stood);
}

bool local_ring::within_own_time(milliseconds at_most,
                                 const std::function<bool()>& condition) const {
  const auto begin = clock::now();
  for (auto until = begin + at_most;;) {
    const auto now = clock::now();
    if (now < until && within(std::chrono::ceil<milliseconds>(until - now), condition))
      return true;
    const auto prolonged = begin + at_most + stalls_.stood_still(begin, clock::now());
    if (prolonged <= until)
      return false;
    until = prolonged;
  }
}

} // namespace peercache::real
