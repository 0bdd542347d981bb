#pragma once

#include "common/result.hpp"
#include "config/node_config.hpp"
#include "discovery/view.hpp"

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>

namespace peercache::rdma {
struct tcp_server_faults;
}

namespace peercache::storage {
class disk_io;
}

namespace peercache::actors {

/// Decorators that a test program puts around parts of its node; programs for users set none.
struct node_decorators {
  using device = std::unique_ptr<storage::disk_io>;
  /// Puts a test's device around the disk tier's device. May be empty.
  std::function<device(device)> disk;
  /// Sets the faults of the page server. May be empty.
  std::function<void(rdma::tcp_server_faults&)> pages;
  std::string version; ///< The version that the node says it has; empty: its real version.
  /// Added to the wire version that the node names to the nodes of the cluster that it wants to
  /// join.
  std::uint32_t speaks_newer = 0;
};

/// One node: pool memory, directory shard, discovery, page server, metrics. The composition root:
/// everything is made here, in order, with the threads that live as long as the node
/// (docs/architecture.md lists them). `peercache-node` is a main around it; tests, demo and laptops
/// embed it.
///
/// Threads: one at a time, except `ready`, `failure` and `stopping_at`. Ownership: owns all of the
/// node; the destructor stops without draining. Forks: in a forked child only the destructor may be
/// called, which frees nothing and takes nothing from the parent.
class node {
public:
  static result<std::unique_ptr<node>> start(const config::node_config& config,
                                             const node_decorators& decorators = {});
  /// Frees the memory of all pools of pool.name_prefix and this user that no process serves.
  /// Returns how many there were.
  static std::size_t discard_pools(const config::node_config& config);
  ~node();
  node(const node&) = delete;
  node& operator=(const node&) = delete;

  /// Returns the node's name and incarnation, and the ports that were really bound.
  const discovery::member& self() const noexcept;
  /// Whether the node is in a view of the cluster and takes work. Any thread.
  bool ready() const;
  /// Why the node can no longer do its work, in words: an actor or a thread of it has ended
  /// unasked. Empty while all live. The owner should end the process, which may answer nobody:
  /// stopping such a node can take for ever. Any thread.
  std::string failure() const;
  /// Registers `act`, which is called once, in any thread, when `failure` is no longer empty; `act`
  /// must not block. Look at `failure` after this call: a failure from before it does not call
  /// `act`.
  void when_failed(std::function<void()> act);

  /// Reads certificate, key and CA again if their files have changed; without this call the next
  /// connection does so. True when the files' contents are in use now; else the previous ones stay,
  /// and the log says why.
  bool read_certificates_again();

  /// Fate of the pool's memory when the node is destroyed.
  enum class pool_after : bool { freed, kept };
  /// Leaves in good order: unready → withdrawn → masters told → reads finished → stopped. Bounded
  /// by drain.timeout. Idempotent. `kept`: the pages are left for the next node of this name, if
  /// pool.keep says so.
  void drain_and_stop(pool_after after = pool_after::freed);
  /// The current step of `drain_and_stop`, in words. Any thread; the result outlives the node.
  std::shared_ptr<const std::atomic<const char*>> stopping_at() const noexcept;

private:
  class impl;
  explicit node(std::unique_ptr<impl> body);
  std::unique_ptr<impl> impl_;
};

} // namespace peercache::actors
