#pragma once

#include "actors/held_pool.hpp"
#include "actors/link_names.hpp"
#include "actors/lookup_connections.hpp"
#include "actors/shared_shard.hpp"
#include "common/ids.hpp"
#include "link/protocol/directory.hpp"
#include "link/protocol/gateway.hpp"

#include <caf/io/broker.hpp>
#include <caf/io/doorman.hpp>

#include <memory>
#include <optional>
#include <string>

namespace peercache::actors {

struct lookup_broker_options {
  std::string cluster;
  incarnation inc; ///< Incarnation of this process.
  directory_actor directory;
  /// The directory's shard, from which look-ups are answered at once; null: the directory is asked
  /// each one.
  std::shared_ptr<shared_shard> shard;
  gateway_actor gateway;
  /// Holds pages for clients at once, without asking an actor; nothing: the gateway is asked.
  std::optional<held_pool> held;
  caf::io::doorman_ptr doorman; ///< A doorman that listens already.
};

caf::behavior run_lookup_broker(caf::io::broker* self, lookup_broker_options options);

} // namespace peercache::actors
