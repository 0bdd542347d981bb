#include "chaos_plan.hpp"

#include <CLI/CLI.hpp>
#include <array>
#include <filesystem>

namespace peercache::chaos {

namespace {

/// Finds libfaketime where Debian's package puts it, whatever the architecture.
result<std::string> find_clock_library() {
  for (const auto* machine : {"x86_64-linux-gnu", "aarch64-linux-gnu"}) {
    auto path = "/usr/lib/" + std::string(machine) + "/faketime/libfaketimeMT.so.1";
    if (std::filesystem::exists(path))
      return path;
  }
  return {errc::not_found,
          "libfaketime is not installed: clocks are moved with it (apt-get install faketime)"};
}

/// Sets the size and pace of the load. The pools of all nodes together hold a third of the working
/// set, and a disk holds about all pages that its node ever sees, so evictions, promotions and
/// stale locations happen all the time. The pace leaves processor time unused, because returns are
/// compared with deadlines.
void shape_load(stress::stress_plan& load) {
  load.ops = UINT64_MAX;
  load.writers = load.nodes + 1;
  load.readers = load.nodes + 1;
  load.keys = 12'000;
  load.pool_share = 0.3;
  load.kill_every = {};
  load.deadline_least = std::chrono::milliseconds(50);
  load.deadline_most = std::chrono::milliseconds(1000);
  load.pause_between_calls = std::chrono::microseconds(25'000);
}

result<void> apply_guard(chaos_plan& plan, const std::string& guard, bool off) {
  auto& load = plan.load;
  load.guard = guard;
  load.stop_at_wrong_bytes = true;
  if (off)
    load.guards_off = {guard};
  plan.round = std::chrono::seconds(8);
  plan.heal_limit = std::chrono::seconds(5);
  if (guard == "view") {
    load.faults = {{"PEERCACHE_TEST_OLD_VIEWS_ONE_IN", "2"}};
    plan.kinds = {fault_kind::kill, fault_kind::drain_join};
    // The limit is long, because the run looks for a fault in the views: pages that are found late
    // on a busy machine must not end the run first.
    plan.heal_limit = std::chrono::seconds(15);
  } else if (guard == "withdraw") {
    // With few keys and many rewrites pages come and go all the time. The fault makes pools send
    // withdrawals again that the directory already has.
    load.faults = {{"PEERCACHE_TEST_WITHDRAWALS_UNHEARD", "1"}};
    load.keys = 2'000;
    load.rewrites_percent = 50;
    plan.disk_bytes = 0; // No disk, because a page that is evicted to disk is not withdrawn.
    plan.kinds = {fault_kind::loss, fault_kind::freeze, fault_kind::partition};
    plan.repairs = false; // No repairs, because they would mend the fault that the run has to find.
  } else if (guard == "purge") {
    plan.kinds = {fault_kind::kill};
    // No disk, because the run counts records, and a page that is in memory and on disk has only
    // one.
    plan.disk_bytes = 0;
  } else {
    return {errc::invalid_argument, "there is no guard '" + guard + "': view, purge or withdraw"};
  }
  return {};
}

} // namespace

result<chaos_plan> parse_plan(int argc, char** argv) {
  chaos_plan plan;
  double minutes = 10;
  std::string without;
  std::string control;
  CLI::App app("Real nodes under faults of all kinds; every byte that is got is compared.",
               "chaos");
  app.add_option("--minutes", minutes, "How long faults are made")
      ->check(CLI::Range(0.05, 10'000.0));
  app.add_option("--seed", plan.load.seed, "Which faults, and when");
  app.add_flag("--keep-pools", plan.keep_pools, "Pages outlive the nodes that are killed");
  app.add_flag("--tls", plan.tls, "Nodes and clients know each other by certificates");
  app.add_option("--nodes", plan.load.nodes, "That run at a time")
      ->default_val(5u)
      ->check(CLI::Range(2u, 50u));
  auto* half = app.add_flag("--kill-half", plan.kill_half,
                            "Half of the nodes go at once, the others have one view in 15 s");
  auto* no_guard =
      app.add_option("--without", without, "Switch one guard off, and find what it keeps away");
  app.add_option("--control", control, "The same run with the guard on: clean")
      ->excludes(no_guard)
      ->excludes(half);
  no_guard->excludes(half);
  app.add_option("--history", plan.history,
                 "Record what happens there, for scripts/check_history.py");
  app.add_option("--node-program", plan.load.node_program, "Path of peercache-node")->required();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& wrong) {
    return {errc::invalid_argument, wrong.what()};
  }
  plan.duration = std::chrono::milliseconds(static_cast<std::int64_t>(minutes * 60'000));
  shape_load(plan.load);
  for (std::size_t kind = 0; kind < fault_kinds; ++kind)
    plan.kinds.push_back(static_cast<fault_kind>(kind));
  if (auto guard = without.empty() ? control : without; !guard.empty())
    if (auto applied = apply_guard(plan, guard, !without.empty()); !applied)
      return applied.error();
  constexpr std::array stores = {"bucket", "file_per_key", "offset"};
  plan.disk_store = stores[plan.load.seed % stores.size()];
  auto clock = find_clock_library();
  if (!clock)
    return clock.error();
  plan.clock_library = *clock;
  return plan;
}

} // namespace peercache::chaos
