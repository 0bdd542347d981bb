// Measures the CPU time that a thread spends on one look-up of 128 keys, and on each owner that it
// asks.
//
// Clusters of several sizes run on this host, one after another. Pages of 4 KiB are put at the last
// node; then `exists` at the first node asks for 128 of them at a time. The CPU time of the asking
// thread over the messages that it sent gives a point for each size; a line through the points
// gives the cost of a message, and that of a look-up besides.

#include "cli/node_process.hpp"
#include "client/cache_client.hpp"
#include "common/assert.hpp"
#include "common/log.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <numeric>
#include <unistd.h>
#include <vector>

namespace peercache {
namespace {

constexpr std::size_t keys_per_batch = 128;
constexpr std::size_t pages = 4096;
constexpr std::size_t page_bytes = 4096;
constexpr int rounds = 7;
constexpr int calls_per_round = 400;

/// The measurement at one size of the cluster; its figures are for one look-up.
struct point {
  double messages = 0;
  double cpu_us = 0; ///< CPU time of the asking thread: the median of the rounds.
};

double thread_cpu_us() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

std::vector<page_key> put_pages(client::cache_client& client) {
  std::vector<std::byte> bytes(page_bytes, std::byte{1});
  client::const_part part{bytes.data(), page_bytes};
  std::vector<page_key> keys;
  for (std::size_t i = 0; i < pages; ++i)
    keys.push_back(key_space{}.key_of(std::to_string(i)));
  for (std::size_t done = 0; done < pages; done += keys_per_batch) {
    std::vector<client::set_page> batch;
    for (std::size_t i = 0; i < keys_per_batch; ++i)
      batch.push_back({keys[done + i], {&part, 1}});
    std::vector<client::page_result> results(batch.size());
    client.set(batch, results);
  }
  auto told = client.flush(std::chrono::steady_clock::now() + std::chrono::seconds(30));
  PEERCACHE_ASSERT(bool(told));
  return keys;
}

point ask_again_and_again(client::cache_client& client, std::span<const page_key> keys) {
  std::vector<client::page_result> results(keys_per_batch);
  std::vector<double> cpu;
  const auto before = client.stats().directory_messages;
  for (int round = 0; round < rounds; ++round) {
    const auto begin = thread_cpu_us();
    for (int call = 0; call < calls_per_round; ++call) {
      auto first = static_cast<std::size_t>(call) * keys_per_batch % pages;
      client.exists(keys.subspan(first, keys_per_batch), results);
    }
    cpu.push_back((thread_cpu_us() - begin) / calls_per_round);
  }
  std::sort(cpu.begin(), cpu.end());
  const auto messages = client.stats().directory_messages - before;
  return {static_cast<double>(messages) / (rounds * calls_per_round), cpu[cpu.size() / 2]};
}

result<point> measure(std::uint32_t nodes, const std::string& program) {
  auto folder = cli::run_folder::make("peercache-fanout");
  if (!folder)
    return folder.error();
  cli::local_cluster_options options{.count = nodes, .folder = folder->path()};
  options.prototype.program = program;
  options.prototype.cluster = "fanout-" + std::to_string(::getpid());
  options.prototype.pool_bytes = 64u << 20;
  auto started = cli::start_local_cluster(options);
  if (!started)
    return started.error();
  client::client_options wanted;
  wanted.cluster = options.prototype.cluster;
  wanted.location_cache_keys = 0;
  const auto connect_to = [&](const cli::node_process& node) {
    wanted.node_host = node.launch().host;
    wanted.node_port = node.ports().control_port;
    return client::cache_client::connect(wanted);
  };
  // Puts pages at another node than the client's, because a client finds pages of its own host
  // without messages.
  auto producer = connect_to(started->back());
  if (!producer)
    return producer.error();
  auto client = connect_to(started->front());
  if (!client)
    return client.error();
  auto keys = put_pages(**producer);
  auto found = ask_again_and_again(**client, keys);
  client->reset();
  producer->reset();
  cli::stop_nodes(*started, std::chrono::seconds(15));
  return found;
}

/// Fits a line by least squares. Returns {CPU time of one message, CPU time of a look-up without
/// messages}, in microseconds.
std::pair<double, double> line_through(const std::vector<point>& points) {
  const auto count = static_cast<double>(points.size());
  double x = 0, y = 0, xx = 0, xy = 0;
  for (const auto& p : points) {
    x += p.messages / count;
    y += p.cpu_us / count;
    xx += p.messages * p.messages / count;
    xy += p.messages * p.cpu_us / count;
  }
  const auto slope = (xy - x * y) / (xx - x * x);
  return {slope, y - slope * x};
}

int run(const std::string& program) {
  std::vector<point> points;
  for (std::uint32_t nodes : {2u, 6u, 12u, 24u}) {
    auto measured = measure(nodes, program);
    if (!measured) {
      std::fprintf(stderr, "lookup_fanout: %s\n", to_string(measured.error()).c_str());
      return 1;
    }
    std::printf("%2u nodes: %4.1f messages, %5.1f us of the thread that asks for %zu keys\n", nodes,
                measured->messages, measured->cpu_us, keys_per_batch);
    points.push_back(*measured);
  }
  auto [message, call] = line_through(points);
  std::printf("a message: %.2f us, a look-up besides: %.1f us\n", message, call);
  return 0;
}

} // namespace
} // namespace peercache

int main(int argc, char** argv) {
  peercache::init_log("lookup_fanout", "error", false);
  return peercache::run(peercache::cli::node_program(argc > 1 ? argv[1] : ""));
}
