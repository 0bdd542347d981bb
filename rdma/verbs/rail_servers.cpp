#include "rdma/verbs/rail_servers.hpp"

#include "common/assert.hpp"
#include "common/log.hpp"
#include "rdma/server_loop.hpp"
#include "rdma/verbs/verbs_rail_server.hpp"

#include <utility>

namespace peercache::rdma {
namespace {

/// Returns a function that logs a line for each tenth of the region that a rail has registered:
/// registering a large pool takes minutes.
auto progress_log(const std::string& rail) {
  return [rail](std::uint32_t done, std::uint32_t total) {
    PEERCACHE_ASSERT(done > 0 && done <= total);
    if (done == total || done * 10 / total != (done - 1) * 10 / total)
      log::info("rail {}: registration is done with {} of {} parts of the memory", rail, done,
                total);
  };
}

auto failure_log(const std::string& rail) {
  return [rail](const std::string& why) {
    log::error("rail {}: a part of the memory cannot be read over it: {}", rail, why);
  };
}

auto no_window_log(const std::string& rail) {
  return [rail](const std::string& why) {
    log::warn("rail {}: a reader is not told of memory that it has no window to, and reads over "
              "another rail or TCP: {}",
              rail, why);
  };
}

} // namespace

rail_servers::~rail_servers() = default;

result<std::unique_ptr<rail_servers>> rail_servers::open(const rail_choice& choice,
                                                         const rail_settings& settings,
                                                         const verbs_server_options& common,
                                                         const served_region& region) {
  std::unique_ptr<rail_servers> made{new rail_servers};
  made->choice_ = choice.why;
  auto options = common;
  options.rails = static_cast<std::uint8_t>(choice.rails.size());
  options.path = settings.path;
  options.windows = settings.windows;
  for (const auto& each : choice.rails) {
    auto added = made->add_rail(each, settings, options, region);
    if (added)
      continue;
    // A rail that cannot have windows is not left out in silence: they were asked for.
    if (settings.mode == plane_mode::verbs || added.error().code == errc::incompatible)
      return added.error();
    log::warn("rail {} is left out: {}", each.device, added.error().message);
    made->choice_ += "; not " + each.device + ": " + added.error().message;
  }
  return made;
}

result<void> rail_servers::add_rail(const rail_choice::rail& which, const rail_settings& settings,
                                    verbs_server_options options, const served_region& region) {
  auto device = verbs::device::open(which.device, {which.port, settings.gid_index});
  if (!device)
    return device.error();
  PEERCACHE_ASSERT(rails_.size() < options.rails); // Readers are told this number.
  rail added;
  added.name = which.device + '/' + std::to_string(which.port);
  options.rail = static_cast<std::uint8_t>(rails_.size());
  options.on_registered = progress_log(added.name);
  options.on_not_registered = failure_log(added.name);
  options.on_no_window = no_window_log(added.name);
  auto server = verbs_rail_server::create(std::move(*device), options, region);
  if (!server)
    return server.error();
  added.server = std::move(*server);
  rails_.push_back(std::move(added));
  return {};
}

void rail_servers::accept(net::stream_socket socket, const verbs_hello& greeting,
                          std::chrono::steady_clock::time_point came_at) {
  PEERCACHE_ASSERT(!rails_.empty()); // A process without rails refuses verbs hellos.
  rails_[greeting.rail % rails_.size()].server->accept(std::move(socket), greeting, came_at);
}

void rail_servers::run(std::size_t rail) {
  PEERCACHE_ASSERT(rail < rails_.size());
  run_server(*rails_[rail].server, stop_, [](clock::time_point) {});
}

void rail_servers::register_region() {
  for (bool found = true; found;) {
    found = false;
    for (auto& each : rails_)
      if (!stop_.load(std::memory_order_acquire))
        found |= each.server->regions().register_next();
  }
}

void rail_servers::stop() noexcept {
  stop_.store(true, std::memory_order_release);
  for (auto& each : rails_)
    each.server->wake();
}

result<void> rail_servers::add_span(std::span<std::byte> memory, device_memory* device) {
  for (std::size_t i = 0; i < rails_.size(); ++i) {
    auto added = rails_[i].server->spans().add(memory, device);
    if (added)
      continue;
    while (i-- > 0)
      rails_[i].server->spans().remove(memory.data());
    return added;
  }
  return {};
}

void rail_servers::remove_span(const std::byte* begin) {
  for (auto& each : rails_)
    each.server->spans().remove(begin);
}

result<void> rail_servers::add_area(std::span<std::byte> memory) {
  result<void> outcome;
  for (auto& each : rails_)
    if (auto added = each.server->add_area(memory); !added && outcome)
      outcome = {added.error().code, "rail " + each.name + ": " + added.error().message};
  return outcome;
}

std::vector<rail_servers::rail_snapshot> rail_servers::latest() const {
  std::vector<rail_snapshot> all;
  for (const auto& each : rails_)
    all.push_back({each.name, each.server->stats()});
  return all;
}

} // namespace peercache::rdma
