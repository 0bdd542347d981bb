#include "link/system_config.hpp"

#include "common/assert.hpp"
#include "link/node_middleman.hpp"
#include "link/protocol/message_types.hpp"
#include "link/scheduler.hpp"

#include <caf/logger.hpp>

#include <chrono>
#include <cstddef>
#include <utility>

namespace peercache::link {

namespace {

/// How many messages an actor handles before its worker looks at the clock and at other actors, and
/// a broker before the multiplexer looks at its sockets. CAF sets no limit.
constexpr std::size_t messages_at_a_time = 64;

} // namespace

system_config::system_config(std::size_t threads, std::shared_ptr<net::tls_context> tls)
    : tls_(std::move(tls)) {
  PEERCACHE_ASSERT(threads >= 1 && threads <= 4);
  add_message_types<caf::id_block::peercache_atoms>();
  add_message_types<caf::id_block::peercache>();
  module_factories.push_back(make_node_middleman);
  module_factories.push_back(make_scheduler);
  set("scheduler.max-threads", threads);
  set("scheduler.max-throughput", messages_at_a_time);
  set("middleman.workers", std::size_t{0});
  set("middleman.enable-automatic-connections", false);
  set("middleman.heartbeat-interval", caf::timespan{std::chrono::milliseconds(500)});
  set("middleman.connection-timeout", caf::timespan{std::chrono::seconds(2)});
}

std::shared_ptr<net::tls_context> tls_of(const caf::actor_system& system) {
  const auto* ours = dynamic_cast<const system_config*>(&system.config());
  return ours == nullptr ? nullptr : ours->tls();
}

void leave_actor_system() noexcept {
  caf::logger::set_current_actor_system(nullptr);
}

} // namespace peercache::link
