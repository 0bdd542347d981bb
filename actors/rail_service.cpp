#include "actors/rail_service.hpp"

#include "actors/link_names.hpp"
#include "common/assert.hpp"
#include "common/log.hpp"
#include "link/rail_settings.hpp"
#include "rdma/verbs/verbs_rail_server.hpp"

#include <utility>

namespace peercache::actors {
namespace {

using namespace std::chrono_literals;
using rdma::clock;

/// Time that a rail's thread goes on polling: the next hello of a reader is near.
constexpr auto spin_before_sleep = 20us;
constexpr auto server_sleep_max = 100ms;

rdma::served_region served(const storage::pool_memory& memory) {
  return {memory.readable_region(), memory.slots().bytes(slot_id{0}, 1).data(), memory.granules()};
}

/// Returns a function that logs a line for each tenth of the pool that a rail has registered:
/// registering a large pool takes minutes.
auto progress_log(const std::string& rail) {
  return [rail](std::uint32_t done, std::uint32_t total) {
    PEERCACHE_ASSERT(done > 0 && done <= total);
    if (done == total || done * 10 / total != (done - 1) * 10 / total)
      log::info("rail {}: registration is done with {} of {} parts of the pool", rail, done, total);
  };
}

auto failure_log(const std::string& rail) {
  return [rail](const std::string& why) {
    log::error("rail {}: a part of the pool cannot be read over it: {}", rail, why);
  };
}

} // namespace

rail_service::~rail_service() = default;

result<std::unique_ptr<rail_service>> rail_service::open(const rdma::rail_choice& choice,
                                                         const config::node_config& config,
                                                         const discovery::member& self,
                                                         const storage::pool_memory& memory) {
  const auto settings = rails_of(config);
  std::unique_ptr<rail_service> made{new rail_service};
  made->choice_ = choice.why;
  for (const auto& each : choice.rails) {
    auto added = made->add_rail(each, settings, config, self,
                                static_cast<std::uint8_t>(choice.rails.size()), memory);
    if (added)
      continue;
    if (settings.mode == rdma::plane_mode::verbs)
      return added.error();
    log::warn("rail {} is left out: {}", each.device, added.error().message);
    made->choice_ += "; not " + each.device + ": " + added.error().message;
  }
  return made;
}

result<void> rail_service::add_rail(const rdma::rail_choice::rail& which,
                                    const rdma::rail_settings& settings,
                                    const config::node_config& config,
                                    const discovery::member& self, std::uint8_t count,
                                    const storage::pool_memory& memory) {
  auto device = rdma::verbs::device::open(which.device, {which.port, settings.gid_index});
  if (!device)
    return device.error();
  PEERCACHE_ASSERT(rails_.size() < count); // Readers are told of `count` rails.
  rail added;
  added.name = which.device + '/' + std::to_string(which.port);
  rdma::verbs_server_options options;
  options.cluster = config.cluster.name;
  options.inc = self.inc;
  options.node = self.name;
  options.rail = static_cast<std::uint8_t>(rails_.size());
  options.rails = count;
  options.path = settings.path;
  options.chunk_bytes = config.rdma.chunk_bytes;
  options.on_registered = progress_log(added.name);
  options.on_not_registered = failure_log(added.name);
  options.send_timeout = config.data.send_timeout;
  auto server = rdma::verbs_rail_server::create(std::move(*device), options, served(memory));
  if (!server)
    return server.error();
  added.server = std::move(*server);
  rails_.push_back(std::move(added));
  return {};
}

void rail_service::accept(net::unique_fd socket, const rdma::verbs_hello& greeting) {
  PEERCACHE_ASSERT(!rails_.empty()); // Where there are none, hellos of verbs are refused.
  rails_[greeting.rail % rails_.size()].server->accept(std::move(socket), greeting);
}

void rail_service::run(std::size_t rail) {
  PEERCACHE_ASSERT(rail < rails_.size());
  auto& server = *rails_[rail].server;
  auto moved_at = clock::now();
  while (!stop_.load(std::memory_order_acquire)) {
    const auto now = clock::now();
    if (server.poll(now))
      moved_at = now;
    else if (now - moved_at > spin_before_sleep)
      server.wait(server_sleep_max);
  }
}

void rail_service::register_pool() {
  for (bool found = true; found;) {
    found = false;
    for (auto& each : rails_)
      if (!stop_.load(std::memory_order_acquire))
        found |= each.server->regions().register_next();
  }
}

void rail_service::stop() noexcept {
  stop_.store(true, std::memory_order_release);
  for (auto& each : rails_)
    each.server->wake();
}

std::vector<rail_service::rail_snapshot> rail_service::latest() const {
  std::vector<rail_snapshot> all;
  for (const auto& each : rails_)
    all.push_back({each.name, each.server->stats()});
  return all;
}

} // namespace peercache::actors
