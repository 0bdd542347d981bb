#include "chaos_cluster.hpp"
#include "chaos_plan.hpp"
#include "cluster_watch.hpp"
#include "half_loss.hpp"
#include "heal_check.hpp"
#include "nemesis.hpp"

#include "bench/sample_statistics.hpp"
#include "common/log.hpp"
#include "tests/real/stress/stress_report.hpp"
#include "tests/real/stress/stress_worker.hpp"

#include <cstdlib>
#include <fmt/format.h>
#include <functional>
#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <thread>

namespace peercache::chaos {

namespace {

/// Exit code on a machine that lacks something that the run needs (root, a program); ctest shows
/// the test as skipped.
constexpr int cannot_run_here = 77;

/// The outcome of a run, without the totals of the workers (stress_ledger).
struct run_outcome {
  /// A sentence for each kind of thing that happened and must not happen.
  std::vector<std::string> faults;
  std::vector<heal_report> heals;
  /// Reports about the nodes that were not killed, made before the killed nodes were started again.
  std::vector<heal_report> rests;
  std::uint64_t stale_records = 0;
  std::uint64_t nodes_died = 0;
};

/// The worker threads of all hosts; a worker whose host has no node waits for one.
class workers {
public:
  workers(const chaos_plan& plan, const chaos_cluster& cluster, stress::stress_ledger& ledger)
      : ledger_(ledger) {
    for (std::uint32_t i = 0; i < plan.load.writers + plan.load.readers; ++i) {
      bool writes = i < plan.load.writers;
      auto host = i % cluster.hosts();
      stress::worker_home home{real::net_lab::address(host), chaos_cluster::control_port,
                               cluster.cluster_name(), cluster.client_tls(),
                               [&cluster, host] { cluster.net().enter(host); }};
      auto& worker = *workers_.emplace_back(
          std::make_unique<stress::stress_worker>(plan.load, ledger, i, std::move(home)));
      threads_.emplace_back([&worker, writes] {
        writes ? worker.write_until_stopped() : worker.read_until_stopped();
      });
    }
  }
  ~workers() {
    ledger_.stop = true;
    for (auto& thread : threads_)
      thread.join();
  }

private:
  stress::stress_ledger& ledger_;
  std::vector<std::unique_ptr<stress::stress_worker>> workers_;
  std::vector<std::thread> threads_;
};

/// Sets `outcome.faults` to one sentence for each count that must be zero, whatever the run did,
/// and is not. Late calls do not count when a guard is off: such a run looks for what the guard
/// prevents, and other programs may run beside it.
void judge(const chaos_plan& plan, const stress::stress_ledger& ledger, const cluster_watch& watch,
           run_outcome& outcome) {
  outcome.faults.clear();
  auto must_be_none = [&](std::uint64_t count, std::string_view what) {
    if (count > 0)
      outcome.faults.push_back(fmt::format("{} {}", count, what));
  };
  must_be_none(ledger.wrong_bytes, "wrong bytes");
  if (plan.load.guards_off.empty())
    must_be_none(ledger.deadline_overruns, "calls that outlived their deadline by more than 50 ms");
  must_be_none(ledger.view_regressions + watch.view_regressions(),
               "times an older view replaced a newer one");
  must_be_none(outcome.nodes_died, "nodes that ended by themselves");
  for (const auto& heal : outcome.heals)
    if (!heal.healed)
      outcome.faults.push_back("not healed: " + heal.fault);
  for (const auto& rest : outcome.rests)
    if (!rest.healed)
      outcome.faults.push_back("half of the nodes gone, the others not whole: " + rest.fault);
}

void tell(const char* what, const heal_report& healed) {
  fmt::print(stderr,
             "chaos: {} {}: one view after {:.2f} s, all {} pages readable after {:.2f} s, "
             "{} stale records{}{}\n",
             what, healed.healed ? "yes" : "NO", healed.view_seconds, healed.pages,
             healed.keys_seconds, healed.stale_records, healed.fault.empty() ? "" : "; ",
             healed.fault);
}

/// Plays a round of `kill_half`: load for some seconds; then half of the nodes are killed, the
/// others are judged, and the killed ones are started again.
result<void> play_half_round(chaos_cluster& cluster, half_loss& halves, run_outcome& outcome,
                             clock::time_point until) {
  constexpr std::chrono::seconds load_before{5};
  std::this_thread::sleep_until(std::min(until, clock::now() + load_before));
  halves.kill();
  outcome.rests.push_back(halves.judge_rest());
  tell("half is gone, the rest is whole", outcome.rests.back());
  auto healed = halves.bring_back();
  if (!healed)
    return healed.error();
  tell("healed", *healed);
  outcome.heals.push_back(std::move(*healed));
  for (const auto& dead : cluster.died()) {
    fmt::print(stderr, "chaos: {}\n", dead);
    outcome.nodes_died += 1;
  }
  return {};
}

/// Plays a round: faults for `plan.round`, then all faults end, and `outcome` says whether the
/// cluster has healed. Ends early when a node has died, or when `found` says that the run has found
/// what it looks for.
result<void> play_round(const chaos_plan& plan, chaos_cluster& cluster, nemesis& faults,
                        heal_check& check, run_outcome& outcome, clock::time_point until,
                        const std::function<bool()>& found) {
  auto end = std::min(until, clock::now() + plan.round);
  while (clock::now() < end) {
    if (found())
      return {};
    if (auto done = faults.step(clock::now()); !done)
      return done;
    for (const auto& dead : cluster.died()) {
      fmt::print(stderr, "chaos: {}\n", dead);
      outcome.nodes_died += 1;
      return {};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  if (auto ended = faults.end_all(); !ended)
    return ended;
  auto healed = check.run(clock::now());
  outcome.stale_records += healed.stale_records;
  tell("healed", healed);
  outcome.heals.push_back(std::move(healed));
  return {};
}

nlohmann::json report(const chaos_plan& plan, const stress::stress_ledger& ledger,
                      const cluster_watch& watch, const nemesis& faults, const run_outcome& outcome,
                      double seconds) {
  auto json = report_of(plan.load, ledger);
  double view_max = 0;
  double keys_max = 0;
  std::uint64_t unreadable = 0;
  std::uint64_t dead = 0;
  for (const auto& heal : outcome.heals) {
    view_max = std::max(view_max, heal.view_seconds);
    keys_max = std::max(keys_max, heal.keys_seconds);
    unreadable += heal.unreadable;
    dead += heal.dead_records;
  }
  json.update({{"nodes", plan.load.nodes},
               {"disk_store", plan.disk_store},
               {"seconds", seconds},
               {"puts", watch.puts()},
               {"evictions", watch.evictions()},
               {"faults", faults.counts()},
               {"heals", outcome.heals.size()},
               {"heal_seconds_max", std::max(view_max, keys_max)},
               {"heal_view_seconds_max", view_max},
               {"unreadable_pages", unreadable},
               {"dead_records", dead},
               {"stale_records", outcome.stale_records},
               {"nodes_died", outcome.nodes_died},
               {"view_regressions", ledger.view_regressions + watch.view_regressions()},
               {"found", outcome.faults}});
  if (plan.kill_half) {
    double rest_max = 0;
    for (const auto& rest : outcome.rests)
      rest_max = std::max(rest_max, rest.view_seconds);
    json.update({{"halves_killed", outcome.rests.size()}, {"rest_view_seconds_max", rest_max}});
  }
  if (!plan.load.guard.empty())
    json["guards_off"] = plan.load.guards_off;
  return json;
}

void summarize(const chaos_plan& plan, const stress::stress_ledger& ledger, const nemesis& faults,
               const run_outcome& outcome, double seconds) {
  fmt::print("{:.0f} s of faults, seed {}: ", seconds, plan.load.seed);
  for (const auto& [kind, count] : faults.counts())
    fmt::print("{} {}  ", count, kind);
  auto gets = std::max<std::uint64_t>(ledger.gets, 1);
  fmt::print(
      "\n{} gets, {:.1f} % hits ({} wrong bytes); {} calls, the latest came back {:.1f} ms after "
      "its deadline\n",
      ledger.gets.load(), 100.0 * static_cast<double>(ledger.hits) / static_cast<double>(gets),
      ledger.wrong_bytes.load(), ledger.calls.load(),
      static_cast<double>(ledger.latest_return_us) / 1000.0);
  for (const auto& example : ledger.examples())
    fmt::print("example: {}\n", example);
  for (const auto& fault : outcome.faults)
    fmt::print("found: {}\n", fault);
  if (outcome.faults.empty())
    fmt::print("clean: {} heals\n", outcome.heals.size());
}

result<void> start_all(const chaos_plan& plan, chaos_cluster& cluster, cluster_watch& watch) {
  for (std::uint32_t host = 0; host < plan.load.nodes; ++host) {
    if (auto started = cluster.start(host); !started)
      return started;
    watch.expect(host, true);
  }
  for (auto until = clock::now() + std::chrono::seconds(30); clock::now() < until;) {
    if (watch.one_view(cluster.all_running()))
      return {};
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return {errc::timed_out,
          "the nodes do not find each other: " + watch.views(cluster.all_running())};
}

/// Creates the history in which the run's events are recorded; null when the plan wants none.
result<std::unique_ptr<tests::history>> record_of(const chaos_plan& plan) {
  if (plan.history.empty())
    return std::unique_ptr<tests::history>();
  return tests::history::create(plan.history, clock::now());
}

/// The objects of one run that each of its rounds uses.
struct players {
  chaos_cluster& cluster;
  stress::stress_ledger& ledger;
  cluster_watch& watch;
  nemesis& faults;
  heal_check& check;
  half_loss& halves;
};

/// Plays rounds until the run's time has passed. With `load.stop_at_wrong_bytes` the run ends as
/// soon as it has found a fault; else it goes on and reports all faults at the end.
result<void> play_rounds(const chaos_plan& plan, const players& with, run_outcome& outcome) {
  workers all(plan, with.cluster, with.ledger);
  const auto until = clock::now() + plan.duration;
  const bool stops = plan.load.stop_at_wrong_bytes;
  auto done = [&] { return outcome.nodes_died > 0 || (stops && !outcome.faults.empty()); };
  while (clock::now() < until && !done()) {
    auto found = [&] {
      judge(plan, with.ledger, with.watch, outcome);
      return stops && !outcome.faults.empty();
    };
    auto played = plan.kill_half ? play_half_round(with.cluster, with.halves, outcome, until)
                                 : play_round(plan, with.cluster, with.faults, with.check, outcome,
                                              until, found);
    if (!played)
      return played.error();
    found();
  }
  return {};
}

int run(const chaos_plan& plan) {
  auto folder = cli::run_folder::make(fmt::format("peercache-chaos-{}", ::getpid()));
  auto failed = [&](const error& why) {
    fmt::print(stderr, "chaos: {}\n", to_string(why));
    if (folder)
      folder->keep();
    return 1;
  };
  if (auto possible = real::net_lab::make(1); !possible) {
    fmt::print(stderr, "chaos: {}\n", to_string(possible.error()));
    return cannot_run_here;
  }
  if (!folder)
    return failed(folder.error());
  auto cluster = chaos_cluster::make(plan, *folder);
  if (!cluster)
    return failed(cluster.error());
  auto made = record_of(plan);
  if (!made)
    return failed(made.error());
  const auto& record = *made;
  stress::stress_ledger ledger(plan.load.keys);
  ledger.record = record.get();
  cluster_watch watch(*cluster, record.get());
  if (auto started = start_all(plan, *cluster, watch); !started)
    return failed(started.error());
  nemesis faults(plan, *cluster, watch);
  heal_check check(plan, *cluster, watch, ledger);
  half_loss halves(plan, *cluster, watch, check);
  run_outcome outcome;
  auto begin = clock::now();
  if (auto played = play_rounds(plan, {*cluster, ledger, watch, faults, check, halves}, outcome);
      !played)
    return failed(played.error());
  if (record)
    for (const auto& [from, to] : ledger.stalls.all())
      record->stall(from, to, "*");
  judge(plan, ledger, watch, outcome);
  auto seconds = bench::seconds_between(begin, clock::now());
  cluster->stop();
  summarize(plan, ledger, faults, outcome, seconds);
  if (plan.kill_half)
    fmt::print("{} nodes killed, {} of them masters; {} of {} times most of the masters\n",
               halves.killed(), halves.masters_killed(), halves.rounds_without_majority(),
               outcome.rests.size());
  if (!outcome.faults.empty() && plan.load.guard.empty()) {
    folder->keep();
    fmt::print("the nodes' logs are in {}\n", folder->path().string());
  }
  fmt::print("{}\n", report(plan, ledger, watch, faults, outcome, seconds).dump());
  return outcome.faults.empty() ? 0 : 1;
}

} // namespace

} // namespace peercache::chaos

int main(int argc, char** argv) {
  using namespace peercache;
  auto plan = chaos::parse_plan(argc, argv);
  if (!plan) {
    fmt::print(stderr, "chaos: {}\n", plan.error().message);
    return plan.error().code == errc::not_found ? chaos::cannot_run_here : 2;
  }
  // The clients live in this process, so its guards and faults are set like those of the nodes.
  std::string off;
  for (const auto& guard : plan->load.guards_off)
    off += (off.empty() ? "" : ",") + guard;
  ::setenv("PEERCACHE_TEST_GUARDS_OFF", off.c_str(), 1);
  for (const auto& [name, value] : plan->load.faults)
    ::setenv(name.c_str(), value.c_str(), 1);
  // A return that is late because the scheduler ran another program is not a fault of the client.
  // So this process, which has the clients, gets a high priority, best effort.
  plan->nodes_priority = ::getpriority(PRIO_PROCESS, 0);
  ::setpriority(PRIO_PROCESS, 0, -15);
  init_log("chaos", "error", false);
  return chaos::run(*plan);
}
