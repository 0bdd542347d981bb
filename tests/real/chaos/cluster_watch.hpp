#pragma once

#include "chaos_cluster.hpp"
#include "client/admin_client.hpp"
#include "tests/support/history.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace peercache::chaos {

/// One node's last answer about itself.
struct seen_node {
  bool answers = false;
  std::chrono::steady_clock::time_point asked_at{};
  bool ready = false;
  incarnation inc;
  discovery::view view;
  std::uint64_t puts = 0;
  std::uint64_t evictions = 0;
  std::uint64_t dead_records = 0; ///< Records in its shard of processes that are no members.
};

/// Asks all nodes again and again how they are, from the hub, which no fault reaches.
///
/// Threads: one of its own, from construction to destruction; all methods may be called from any.
/// Invariant looked after: a process never goes back to an older view than one that it told.
class cluster_watch {
public:
  /// @param record Gets each view of each process; may be null. It and `cluster` outlive this.
  explicit cluster_watch(const chaos_cluster& cluster, tests::history* record = nullptr);
  ~cluster_watch();
  cluster_watch(const cluster_watch&) = delete;
  cluster_watch& operator=(const cluster_watch&) = delete;

  /// Hosts whose nodes are not there or stand still are not asked: each would cost a time-out.
  void expect(std::uint32_t host, bool answers) { expected_[host] = answers; }
  seen_node latest(std::uint32_t host) const;
  /// Every one of these nodes, asked after `since`, is ready, and all have one view, of exactly
  /// these nodes.
  bool one_view(const std::vector<std::uint32_t>& hosts,
                std::chrono::steady_clock::time_point since = {}) const;
  /// The nodes' views, for a report of why there is not one.
  std::string views(const std::vector<std::uint32_t>& hosts) const;

  std::uint64_t view_regressions() const { return regressions_; }
  /// Over all processes that were seen, up to when they were asked last.
  std::uint64_t puts() const;
  std::uint64_t evictions() const;

private:
  void run();
  void ask(std::uint32_t host);
  void note(std::uint32_t host, std::chrono::steady_clock::time_point asked_at,
            const client::node_status& status, discovery::view view);

  const chaos_cluster& cluster_;
  tests::history* const record_;
  std::vector<std::atomic<bool>> expected_;
  std::vector<std::unique_ptr<client::admin_client>> admins_; ///< The thread's own.
  mutable std::mutex lock_; ///< Guards the next three: readers must not see half an answer.
  std::vector<seen_node> seen_;
  std::uint64_t former_puts_ = 0; ///< Puts of processes that are gone.
  std::uint64_t former_evictions_ = 0;
  std::atomic<std::uint64_t> regressions_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

} // namespace peercache::chaos
