// Looks keys up over verbs in a cluster of two nodes on this host, and counts who took part:
//
//   peercache_lookups_over_verbs [PEERCACHE-NODE]
//
// Fails unless there was a round in which every question was answered by READs of the owner's
// shard, one READ a key, which was looked up before, and one of the header, and the owner's look-up
// threads took no part; in other rounds the guest may have stood still, so that READs were given
// up. Prints the time of a look-up of one key, for the first time and again, beside that of
// ib_read_lat.

#include "bench/sample_statistics.hpp"
#include "cli/bench/bench_perftest.hpp"
#include "cli/bench/bench_rdma.hpp"
#include "cli/node_process.hpp"
#include "client/cache_client.hpp"
#include "common/assert.hpp"
#include "common/log.hpp"
#include "directory/remote_search.hpp"
#include "rdma/verbs/device.hpp"

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>
#include <vector>

namespace peercache {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

constexpr std::size_t pages = 512;
constexpr std::uint32_t page_bytes = 4096;
constexpr std::uint32_t calls = 400;
constexpr int rounds = 5;

/// Times that the look-up threads of the node gave up the processor: each answer takes one.
std::uint64_t wake_ups(const cli::node_process& node) {
  std::uint64_t all = 0;
  const auto tasks = "/proc/" + std::to_string(node.ports().pid) + "/task";
  for (const auto& task : std::filesystem::directory_iterator(tasks)) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    if (name != "peercache-asked")
      continue;
    std::string line;
    for (std::ifstream status(task.path() / "status"); std::getline(status, line);)
      if (line.starts_with("voluntary_ctxt_switches:"))
        all += std::stoull(line.substr(line.find(':') + 1));
  }
  return all;
}

result<std::unique_ptr<client::cache_client>> connect_to(const cli::node_process& node) {
  client::client_options wanted;
  wanted.cluster = node.launch().cluster;
  wanted.node_host = node.launch().host;
  wanted.node_port = node.ports().control_port;
  wanted.location_cache_keys = 0;
  wanted.timeout = 30s;
  wanted.rails.mode = rdma::plane_mode::verbs;
  return client::cache_client::connect(wanted);
}

std::vector<page_key> put_pages(client::cache_client& client, const std::string& names) {
  const std::vector<std::byte> bytes(page_bytes, std::byte{1});
  client::const_part part{bytes.data(), page_bytes};
  std::vector<page_key> keys;
  std::vector<client::set_page> batch;
  for (std::size_t i = 0; i < pages; ++i) {
    keys.push_back(key_space{}.key_of(names + std::to_string(i)));
    batch.push_back({keys.back(), {&part, 1}});
  }
  std::vector<client::page_result> results(batch.size());
  client.set(batch, results);
  const auto told = client.flush(steady_clock::now() + 60s);
  PEERCACHE_ASSERT(bool(told));
  return keys;
}

/// The first look-ups of keys whose owner is the other node: READs, or that node was asked.
struct first_look_ups {
  std::vector<page_key> keys;
  double call_us = 0; ///< The typical time of one.
  double reads = 0;   ///< READs of one.
};

first_look_ups of_the_other_node(client::cache_client& client, const std::vector<page_key>& all) {
  first_look_ups made;
  std::vector<double> took;
  const auto reads_before = client.stats().shard_reads;
  for (const auto& key : all) {
    const auto before = client.stats().lookups_own;
    client::page_result result;
    const auto begin = steady_clock::now();
    client.exists({&key, 1}, {&result, 1});
    const auto lasted = steady_clock::now() - begin;
    if (client.stats().lookups_own != before)
      continue;
    took.push_back(std::chrono::duration<double, std::micro>(lasted).count());
    made.keys.push_back(key);
  }
  made.call_us = bench::median(took);
  made.reads = static_cast<double>(client.stats().shard_reads - reads_before) /
               static_cast<double>(made.keys.size());
  return made;
}

/// The typical time of a look-up of `count` keys, in microseconds. @param wrong counts answers that
/// are not a hit
double ask(client::cache_client& client, std::span<const page_key> keys, std::size_t count,
           std::uint64_t& wrong) {
  std::vector<client::page_result> results(count);
  std::vector<double> took;
  for (std::uint32_t call = 0; call < calls; ++call) {
    const auto first = call * count % (keys.size() - count + 1);
    const auto begin = steady_clock::now();
    client.exists(keys.subspan(first, count), results);
    took.push_back(std::chrono::duration<double, std::micro>(steady_clock::now() - begin).count());
    for (const auto& each : results)
      wrong += each.status == page_status::hit ? 0 : 1;
  }
  return bench::median(took);
}

/// The typical time of a READ of a unit between two devices of this host, in microseconds.
result<double> read_latency() {
  auto ports = cli::choose_ports({}, rdma::verbs::list_ports());
  if (!ports)
    return ports.error();
  auto sample =
      cli::read_latency({ports->reader, ports->server,
                         static_cast<std::uint32_t>(directory::shard_unit_bytes), calls, 1});
  if (!sample)
    return sample.error();
  return bench::median(sample->call_us);
}

/// Whether what was counted is what READs alone make.
bool only_reads(const client::client_stats& before, const client::client_stats& after,
                std::uint64_t keys) {
  const auto asked = after.directory_messages - before.directory_messages;
  const auto read = after.lookups_read - before.lookups_read;
  const auto reads = after.shard_reads - before.shard_reads;
  std::printf("%llu questions, %llu answered by READs; %.2f READs a key, the header of each "
              "question among them\n",
              static_cast<unsigned long long>(asked), static_cast<unsigned long long>(read),
              static_cast<double>(reads) / static_cast<double>(keys));
  // Few keys share their place in what the client remembers, so that their records are READ again.
  return asked == read && reads <= keys + read + keys / 8;
}

bool few_reads(const first_look_ups& first) {
  std::printf("first look-ups: %.2f READs a key, the header of each question among them\n",
              first.reads);
  // Few keys share a hash, or a line that is full, so that more than two READs are needed.
  return first.reads <= 3.25;
}

/// Prints the times of look-ups beside that of a READ, all in microseconds.
void print_times(double read, double first, double one, double many) {
  std::printf("ib_read_lat of 64 bytes: %.1f us; the first look-up of a key %.1f us (%.2f x); "
              "further ones of one key %.1f us (%.2f x), of 128 keys %.1f us (%.2f x)\n",
              read, first, first / read, one, one / read, many, many / read);
}

int run(const std::string& program) {
  const auto folder = cli::run_folder::make("peercache-lookups");
  PEERCACHE_ASSERT(folder);
  cli::local_cluster_options options{.count = 2, .folder = folder->path()};
  options.prototype.program = program;
  options.prototype.cluster = "lookups-" + std::to_string(::getpid());
  options.prototype.pool_bytes = 64u << 20;
  // One owner for each key, so that half of the keys are none of the asking client's host.
  options.prototype.flags = {"--data-plane", "verbs", "--directory-replicas", "1"};
  auto nodes = cli::start_local_cluster(options);
  if (!nodes) {
    std::fprintf(stderr, "lookups_over_verbs: %s\n", to_string(nodes.error()).c_str());
    return 1;
  }
  auto producer = connect_to(nodes->back());
  auto client = connect_to(nodes->front());
  PEERCACHE_ASSERT(producer && client);
  const auto keys = of_the_other_node(**client, put_pages(**producer, "page ")).keys;
  PEERCACHE_ASSERT(keys.size() > 128);
  std::uint64_t wrong = 0;
  // The first look-ups connect, and learn the shards' headers.
  const auto until = steady_clock::now() + 60s;
  for (auto seen = (*client)->stats(); seen.lookups_read < 64 && steady_clock::now() < until;
       seen = (*client)->stats())
    ask(**client, keys, 1, wrong);
  // The first look-ups of the keys above waited for the rail.
  const auto first = of_the_other_node(**client, put_pages(**producer, "further page "));
  bool one_right = false, many_right = false, slept = false;
  std::vector<double> limit, one, many;
  for (int round = 0; round < rounds; ++round) {
    const auto raw = read_latency();
    if (!raw) {
      std::fprintf(stderr, "lookups_over_verbs: %s\n", to_string(raw.error()).c_str());
      return 1;
    }
    limit.push_back(*raw);
    const auto before = (*client)->stats();
    const auto woken = wake_ups(nodes->back());
    const auto begin = steady_clock::now();
    one.push_back(ask(**client, keys, 1, wrong));
    one_right |= only_reads(before, (*client)->stats(), calls);
    const auto between = (*client)->stats();
    many.push_back(ask(**client, keys, 128, wrong));
    many_right |= only_reads(between, (*client)->stats(), 128 * calls);
    const auto seconds = std::chrono::duration<double>(steady_clock::now() - begin).count();
    const auto woke = wake_ups(nodes->back()) - woken;
    std::printf("the other node's look-up threads woke %llu times in %.1f s\n",
                static_cast<unsigned long long>(woke), seconds);
    // Beside look-ups they hear a hello of each client a second, and look for late connections.
    slept |= static_cast<double>(woke) < 20 * (seconds + 1);
  }
  print_times(bench::median(limit), first.call_us, bench::median(one), bench::median(many));
  std::printf("wrong answers: %llu\n", static_cast<unsigned long long>(wrong));
  client->reset();
  producer->reset();
  cli::stop_nodes(*nodes, 30s);
  return few_reads(first) && one_right && many_right && slept && wrong == 0 ? 0 : 1;
}

} // namespace
} // namespace peercache

int main(int argc, char** argv) {
  peercache::init_log("lookups_over_verbs", "error", false);
  return peercache::run(peercache::cli::node_program(argc > 1 ? argv[1] : ""));
}
