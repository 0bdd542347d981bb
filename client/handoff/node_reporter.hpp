#pragma once

#include "client/handoff/worker_options.hpp"
#include "link/protocol/gateway.hpp"
#include "link/thread_actors.hpp"
#include "metrics/samples.hpp"

#include <caf/actor.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace peercache::client {

/// The node that a worker reports to.
struct node_reporter_options {
  std::string host;
  std::uint16_t port = 0;
  std::string cluster;
  std::string name; ///< Name of the worker in the node's log.
  /// Returns the worker's counts: called in the reporter's thread for each report; must not block.
  std::function<metrics::samples()> totals;
};

/// Reports a worker's counts to the node of its host every second, by a session that maps no pool.
/// A node that is absent, or goes, is looked for again; nothing else of the worker depends on the
/// node. Threads: the owner's. Lifetime: the destructor takes at most a second; what `totals` uses
/// outlives the reporter.
class node_reporter {
public:
  node_reporter(link::thread_actors& threads, node_reporter_options options);
  /// Sends the last totals to the node, if there is a session, without waiting for an answer.
  ~node_reporter();
  node_reporter(const node_reporter&) = delete;
  node_reporter& operator=(const node_reporter&) = delete;

private:
  caf::actor_system& system_;
  link::connector_actor connector_;
  link::session_listener actor_;
};

/// A reporter for a worker of this side; null when the options name no node.
/// @param totals called as in `node_reporter_options`, with the worker's name
std::unique_ptr<node_reporter>
report_to_node(link::thread_actors& threads, const worker_options& options, const std::string& side,
               std::function<metrics::samples(const std::string& name)> totals);

} // namespace peercache::client
