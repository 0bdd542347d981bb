#include "stress_cluster.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <unistd.h>

namespace peercache::stress {

using metrics::metric;

result<stress_cluster> stress_cluster::start(const stress_plan& plan, cli::run_folder& folder) {
  cli::local_cluster_options options{.count = plan.nodes, .folder = folder.path()};
  options.prototype.program = plan.node_program;
  options.prototype.cluster = fmt::format("stress-{}", ::getpid());
  options.prototype.pool_bytes = pool_bytes_per_node(plan);
  // Nodes that start again must have new pools. In a kept pool the generations continue, so an old
  // location could not lead to a wrong byte, whatever guard is off.
  options.prototype.flags = {"--no-pool-keep", "--pool-name-prefix",
                             fmt::format("peercache-stress-{}", ::getpid())};
  options.prototype.environment = plan.faults;
  std::string off;
  for (const auto& guard : plan.guards_off)
    off += (off.empty() ? "" : ",") + guard;
  if (!off.empty())
    options.prototype.environment.emplace_back("PEERCACHE_TEST_GUARDS_OFF", off);
  auto nodes = cli::start_local_cluster(options);
  if (!nodes)
    return nodes.error();
  return stress_cluster(std::move(*nodes));
}

result<client::node_status> stress_cluster::status(std::uint32_t node) const {
  auto admin = client::admin_client::connect("127.0.0.1", port(node), cluster_name(),
                                             std::chrono::milliseconds(1000));
  if (!admin)
    return admin.error();
  return (*admin)->status();
}

void stress_cluster::count(std::uint32_t node) {
  if (auto told = status(node))
    now_[node] = {told->count(metric::pool_puts_total), told->count(metric::evictions_total),
                  told->count(metric::pool_pages), told->count(metric::pool_bytes_used)};
}

std::uint64_t stress_cluster::pages(std::uint32_t node) const {
  auto told = status(node);
  return told ? told->count(metric::pool_pages) : 0;
}

void stress_cluster::count() {
  for (std::uint32_t i = 0; i < nodes_.size(); ++i)
    count(i);
}

result<void> stress_cluster::kill_and_restart(std::uint32_t node) {
  count(node);
  nodes_[node].process().kill_now();
  history_.push_back(now_[node]);
  now_[node] = {};
  kills_ += 1;
  // All nodes have the same list of seeds, with the head first; a head that starts again joins the
  // others.
  std::vector<std::string> seeds;
  for (const auto& other : nodes_)
    seeds.push_back(other.address());
  return nodes_[node].restart(seeds);
}

std::uint64_t stress_cluster::puts() const {
  std::uint64_t sum = 0;
  for (const auto* list : {&now_, &history_})
    for (const auto& each : *list)
      sum += each.puts;
  return sum;
}

std::uint64_t stress_cluster::evictions() const {
  std::uint64_t sum = 0;
  for (const auto* list : {&now_, &history_})
    for (const auto& each : *list)
      sum += each.evictions;
  return sum;
}

std::uint64_t stress_cluster::evicting_puts() const {
  std::uint64_t sum = 0;
  for (const auto* list : {&now_, &history_})
    for (const auto& each : *list)
      sum += std::min(each.puts, each.evictions);
  return sum;
}

nlohmann::json stress_cluster::pools() const {
  auto pools = nlohmann::json::array();
  for (const auto& each : now_)
    pools.push_back({{"pages", each.pages}, {"bytes_used", each.bytes_used}});
  return pools;
}

} // namespace peercache::stress
