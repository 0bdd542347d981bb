#pragma once

#include "chaos_cluster.hpp"
#include "cluster_watch.hpp"
#include "nemesis.hpp"
#include "pool_scan.hpp"
#include "tests/real/stress/stress_ledger.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace peercache::chaos {

/// The state of a cluster after its faults had ended.
struct heal_report {
  bool healed = false;
  double view_seconds = 0; ///< Time until all nodes had the same view, with all nodes as members.
  double keys_seconds = 0; ///< Time until every page of a pool could be read at every host.
  std::uint64_t pages = 0; ///< Pages in all pools.
  std::uint64_t unreadable = 0;    ///< Pages in pools that some host could not read at the end.
  std::uint64_t unread_pools = 0;  ///< Pools whose tables could not be read at the end.
  std::uint64_t dead_records = 0;  ///< Records of processes that were not members at the end.
  std::uint64_t stale_records = 0; ///< Records of living processes that hold no such page.
  std::string fault;               ///< Why the cluster has not healed; empty if it has.
};

/// Waits until a cluster without faults is whole: one view, no record of a dead process, and every
/// page that lies in a pool can be read at every host. Workers rest once the nodes have one view.
///
/// Threads: the thread that uses the cluster. `run` reads pages with one more thread for each host,
/// and joins these before it returns.
class heal_check {
public:
  /// @pre all arguments outlive this object
  heal_check(const chaos_plan& plan, const chaos_cluster& cluster, const cluster_watch& watch,
             stress::stress_ledger& ledger);
  ~heal_check();

  /// Checks the nodes that run. @param since time at which the last fault ended
  heal_report run(clock::time_point since) { return run(since, plan_.heal_limit); }
  /// Checks the nodes that run, with more time for their view. @param since time at which the other
  /// nodes were killed
  heal_report run(clock::time_point since, std::chrono::milliseconds view_limit);

private:
  class host_reader;
  using page_ids = std::vector<std::uint32_t>;

  bool wait_for_one_view(heal_report& report, clock::time_point since,
                         std::chrono::milliseconds limit);
  void let_workers_rest();
  page_ids ids_in_pools(heal_report& report);
  void judge_records(heal_report& report, clock::time_point until);
  void count_stale_records(heal_report& report);
  void judge_pages(heal_report& report, clock::time_point until);
  std::string describe(std::uint32_t host, std::uint32_t id);

  const chaos_plan& plan_;
  const chaos_cluster& cluster_;
  const cluster_watch& watch_;
  stress::stress_ledger& ledger_;
  std::vector<page_key> keys_; ///< Keys of the working set, indexed by page number.
  std::unordered_map<page_key, std::uint32_t> ids_;
  std::unordered_map<incarnation, pool_pages> pools_; ///< Pools of the nodes that run.
  std::vector<std::unique_ptr<host_reader>> readers_; ///< A reader for each host.
};

} // namespace peercache::chaos
