#include "actors/node/node_options.hpp"

#include "common/log.hpp"
#include "net/socket.hpp"
#include "storage/eviction_policy.hpp"

#include <algorithm>
#include <ctime>
#include <thread>

namespace peercache::actors {
namespace {

storage::eviction_kind kind_of(config::eviction_mode mode) {
  switch (mode) {
  case config::eviction_mode::lru:
    return storage::eviction_kind::lru;
  case config::eviction_mode::s3fifo:
    return storage::eviction_kind::s3fifo;
  case config::eviction_mode::automatic:
    break;
  }
  return storage::eviction_kind::automatic;
}

/// Time beyond discovery.expiry after which the pinned head (the first seed) founds a cluster
/// although seeds of it have no address yet.
constexpr std::chrono::seconds found_without_names_after{10};

error no_answer_yet() {
  return {errc::timed_out, "the name service has not answered yet"};
}

} // namespace

storage::pool_memory_options memory_options(const config::node_config& config,
                                            const discovery::member& self) {
  storage::pool_memory_options options;
  options.name_prefix = config.pool.name_prefix;
  options.cluster_name = config.cluster.name;
  options.node_name = self.name;
  options.owner = self.inc;
  options.size_bytes = config.pool.size_bytes;
  if (config.pool.huge_pages != config::huge_pages::off) {
    options.huge_page_directory = "/dev/hugepages";
    options.huge_page_bytes = config::bytes_of(config.pool.huge_pages);
  }
  options.prefault_threads = config.pool.prefault_threads != 0
                                 ? config.pool.prefault_threads
                                 : std::max(1u, std::thread::hardware_concurrency());
  options.on_progress = [last = 0ull](std::uint64_t done, std::uint64_t total) mutable {
    if (auto tenth = done * 10 / std::max<std::uint64_t>(total, 1); tenth != last) {
      last = tenth;
      log::info("pool: {} of {} bytes touched", done, total);
    }
  };
  return options;
}

std::unique_ptr<storage::page_pool> make_pool(const config::node_config& config,
                                              const storage::pool_memory& memory) {
  storage::page_pool_options options;
  auto size = static_cast<double>(memory.page_bytes());
  options.free_low_bytes = static_cast<std::uint64_t>(size * config.pool.free_low);
  options.free_high_bytes = static_cast<std::uint64_t>(size * config.pool.free_high);
  options.scrub_evicted = config.pool.scrub_evicted;
  options.epochs = memory.epochs();
  options.holds = memory.holds();
  options.holds.limit(static_cast<std::uint64_t>(memory.granules() * config.pool.hold_share));
  return std::make_unique<storage::page_pool>(
      memory.slots(),
      storage::make_eviction_policy(kind_of(config.pool.eviction), memory.page_bytes()), options,
      memory.index());
}

resolved_seeds resolve_seeds(const std::vector<config::host_port>& seeds) {
  resolved_seeds resolved;
  for (const auto& seed : seeds) {
    if (net::is_numeric(seed.host)) {
      // A numeric address may be written in several ways; its usual form is found without a name
      // server.
      const auto usual = net::resolve_host(seed.host);
      resolved.all.push_back({usual ? *usual : seed.host, seed.port});
      continue;
    }
    resolved.all.push_back({seed.host, seed.port});
    resolved.lacking.insert_or_assign(resolved.all.back(), no_answer_yet());
  }
  auto answers =
      seed_names(resolved.lacking, net::resolve_host, names_pause).take_within(names_patience);
  for (auto& seed : resolved.all) {
    const auto answer = answers.find(seed);
    if (answer == answers.end())
      continue;
    if (answer->second) {
      resolved.lacking.erase(seed);
      seed.host = *answer->second;
    } else {
      log::warn("discovery.seeds: {}: {}; the node goes on looking for it", seed.host,
                answer->second.error().message);
      resolved.lacking.insert_or_assign(seed, answer->second);
    }
  }
  return resolved;
}

discovery::membership_options machine_options(const config::node_config& config,
                                              const resolved_seeds& seeds) {
  discovery::membership_options options;
  options.seeds = seeds.all;
  // A living cluster may be behind a name that has no address yet.
  if (!seeds.lacking.empty())
    options.patience = found_without_names_after;
  options.max_masters = config.discovery.max_masters;
  options.heartbeat = config.discovery.heartbeat;
  options.expiry = config.discovery.expiry;
  options.unix_ms = static_cast<std::uint64_t>(std::time(nullptr)) * 1000;
  return options;
}

std::chrono::milliseconds vote_limit(const config::node_config& config) {
  return config.discovery.expiry + 2 * config.discovery.heartbeat;
}

std::map<std::string, std::string> common_options(const config::node_config& config) {
  const auto& discovery = config.discovery;
  return {{"directory.replicas", std::to_string(config.directory.replicas)},
          {"discovery.expiry", std::to_string(discovery.expiry.count()) + "ms"},
          {"discovery.heartbeat", std::to_string(discovery.heartbeat.count()) + "ms"},
          {"discovery.max_masters", std::to_string(discovery.max_masters)},
          {"tls.*", config.tls.given() ? "set" : "none"}};
}

} // namespace peercache::actors
