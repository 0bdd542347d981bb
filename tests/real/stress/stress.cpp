#include "stress_cluster.hpp"
#include "stress_ledger.hpp"
#include "stress_plan.hpp"
#include "stress_report.hpp"
#include "stress_worker.hpp"

#include "bench/sample_statistics.hpp"
#include "common/log.hpp"

#include <cstdlib>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

namespace peercache::stress {

namespace {

using clock = bench::clock;

bool over(const stress_plan& plan, const stress_ledger& ledger, clock::time_point begin) {
  return ledger.ops >= plan.ops || clock::now() - begin >= plan.seconds_max ||
         (plan.stop_at_wrong_bytes && ledger.wrong_bytes != 0);
}

/// Sleeps for `duration`, or until the run is over. Returns false when the run is over.
bool rest(const stress_plan& plan, const stress_ledger& ledger, clock::time_point begin,
          std::chrono::milliseconds duration) {
  for (auto end = clock::now() + duration; clock::now() < end;) {
    if (over(plan, ledger, begin))
      return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return !over(plan, ledger, begin);
}

/// Kills a node and starts it again while readers rest, so that the locations which they remember
/// name slots of a process that is gone.
result<void> kill_while_readers_rest(const stress_plan& plan, stress_ledger& ledger,
                                     stress_cluster& cluster, std::uint32_t victim,
                                     clock::time_point begin) {
  ledger.readers_rest = true;
  auto pages_enough = cluster.pages(victim) / 2;
  auto restarted = cluster.kill_and_restart(victim);
  auto until = clock::now() + std::chrono::milliseconds(1500);
  while (clock::now() < until && cluster.pages(victim) < pages_enough)
    rest(plan, ledger, begin, std::chrono::milliseconds(20));
  ledger.readers_rest = false;
  return restarted;
}

/// Kills one node after the other until the run is over.
result<void> play_chaos(const stress_plan& plan, stress_ledger& ledger, stress_cluster& cluster,
                        clock::time_point begin) {
  std::mt19937_64 random(plan.seed);
  while (plan.kill_every.count() != 0) {
    auto half = static_cast<std::uint64_t>(plan.kill_every.count() / 2);
    if (!rest(plan, ledger, begin, std::chrono::milliseconds(half + random() % (2 * half))))
      return {};
    auto drawn = static_cast<std::uint32_t>(random() % plan.nodes);
    // If readers rest at kills, the same node is killed each time, because processes of one node
    // fill their slots in about the same order.
    auto victim = plan.readers_rest_at_kills ? 1 : drawn;
    auto restarted = plan.readers_rest_at_kills
                         ? kill_while_readers_rest(plan, ledger, cluster, victim, begin)
                         : cluster.kill_and_restart(victim);
    if (!restarted)
      return restarted;
  }
  rest(plan, ledger, begin, plan.seconds_max);
  return {};
}

std::vector<std::thread> start_workers(const stress_plan& plan, stress_ledger& ledger,
                                       std::vector<std::unique_ptr<stress_worker>>& workers,
                                       const stress_cluster& cluster) {
  std::vector<std::thread> threads;
  for (std::uint32_t i = 0; i < plan.writers + plan.readers; ++i) {
    bool writes = i < plan.writers;
    auto& worker = *workers.emplace_back(std::make_unique<stress_worker>(
        plan, ledger, i,
        worker_home{.port = cluster.port(i % plan.nodes), .cluster = cluster.cluster_name()}));
    threads.emplace_back(
        [&worker, writes] { writes ? worker.write_until_stopped() : worker.read_until_stopped(); });
  }
  return threads;
}

nlohmann::json report(const stress_plan& plan, const stress_ledger& ledger,
                      const stress_cluster& cluster, double seconds) {
  auto json = report_of(plan, ledger);
  json.update({{"evicting_puts", cluster.evicting_puts()},
               {"puts", cluster.puts()},
               {"evictions", cluster.evictions()},
               {"kills", cluster.kills()},
               {"pools", cluster.pools()},
               {"seconds", seconds}});
  if (!plan.guard.empty()) {
    json["guard"] = plan.guard;
    json["guards_off"] = plan.guards_off;
    auto masked = nlohmann::json::array();
    for (const auto& guard : plan.guards_off)
      if (guard != plan.guard)
        masked.push_back(guard);
    if (plan.verify == verify_mode::off)
      masked.push_back("checksum");
    json["masked"] = masked;
  }
  return json;
}

int run(const stress_plan& plan) {
  auto folder = cli::run_folder::make("peercache-stress");
  if (!folder) {
    fmt::print(stderr, "stress: {}\n", to_string(folder.error()));
    return 1;
  }
  auto cluster = stress_cluster::start(plan, *folder);
  if (!cluster) {
    folder->keep();
    fmt::print(stderr, "stress: {}\n", to_string(cluster.error()));
    return 1;
  }
  stress_ledger ledger(plan.keys);
  std::vector<std::unique_ptr<stress_worker>> workers;
  auto begin = clock::now();
  auto threads = start_workers(plan, ledger, workers, *cluster);
  auto played = play_chaos(plan, ledger, *cluster, begin);
  ledger.stop = true;
  for (auto& thread : threads)
    thread.join();
  auto seconds = bench::seconds_between(begin, clock::now());
  cluster->count();
  workers.clear();
  cluster->stop();
  for (const auto& example : ledger.examples())
    fmt::print(stderr, "stress: {}\n", example);
  if (!played)
    fmt::print(stderr, "stress: {}\n", to_string(played.error()));
  if (!played || (ledger.wrong_bytes != 0 && plan.guard.empty())) {
    folder->keep();
    fmt::print(stderr, "stress: the nodes' logs are in {}\n", folder->path().string());
  }
  fmt::print("{}\n", report(plan, ledger, *cluster, seconds).dump());
  return played && ledger.wrong_bytes == 0 ? 0 : 1;
}

} // namespace

} // namespace peercache::stress

int main(int argc, char** argv) {
  using namespace peercache;
  auto plan = stress::parse_plan(argc, argv);
  if (!plan) {
    fmt::print(stderr, "stress: {}\n", plan.error().message);
    return 2;
  }
  // The clients live in this process, so its guards and faults are set like those of the nodes.
  std::string off;
  for (const auto& guard : plan->guards_off)
    off += (off.empty() ? "" : ",") + guard;
  ::setenv("PEERCACHE_TEST_GUARDS_OFF", off.c_str(), 1);
  for (const auto& [name, value] : plan->faults)
    ::setenv(name.c_str(), value.c_str(), 1);
  init_log("stress", "error", false);
  return stress::run(*plan);
}
