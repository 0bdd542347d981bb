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

/// A node's last answer to a `cluster_watch` about its state.
struct seen_node {
  bool answers = false;
  std::chrono::steady_clock::time_point asked_at{};
  bool ready = false;
  incarnation inc;
  discovery::view view;
  std::uint64_t puts = 0;
  std::uint64_t evictions = 0;
  /// Records in the node's shard that name processes which are not members.
  std::uint64_t dead_records = 0;
};

/// Asks all nodes for their state, again and again, from the hub, which no fault reaches. Counts a
/// regression when a process tells an older view than before.
///
/// Threads: one of its own, from construction to destruction; all methods may be called from any.
class cluster_watch {
public:
  /// @param record gets each view of each process; may be null. Both arguments outlive the watch.
  explicit cluster_watch(const chaos_cluster& cluster, tests::history* record = nullptr);
  ~cluster_watch();
  cluster_watch(const cluster_watch&) = delete;
  cluster_watch& operator=(const cluster_watch&) = delete;

  /// Says whether the host's node can answer. A node that is down or frozen is not asked, because
  /// each question would cost a time-out.
  void expect(std::uint32_t host, bool answers) { expected_[host] = answers; }
  seen_node latest(std::uint32_t host) const;
  /// Whether these nodes, all asked after `since`, are ready and have the same view, with exactly
  /// these nodes as members.
  bool one_view(const std::vector<std::uint32_t>& hosts,
                std::chrono::steady_clock::time_point since = {}) const;
  /// Describes the views of these nodes, for a report that they are not the same.
  std::string views(const std::vector<std::uint32_t>& hosts) const;

  std::uint64_t view_regressions() const { return regressions_; }
  /// Returns the sum over all processes of nodes, including processes that are gone, as of each
  /// one's last answer.
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
  /// One client for each node; used by the watch's thread only.
  std::vector<std::unique_ptr<client::admin_client>> admins_;
  /// Guards `seen_` and the `former_` totals, so that callers do not see half an answer.
  mutable std::mutex lock_;
  std::vector<seen_node> seen_;
  std::uint64_t former_puts_ = 0; ///< Puts of processes that are gone.
  std::uint64_t former_evictions_ = 0;
  std::atomic<std::uint64_t> regressions_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

} // namespace peercache::chaos
