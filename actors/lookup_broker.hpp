#pragma once

#include "actors/protocol/directory.hpp"
#include "common/ids.hpp"

#include <caf/io/broker.hpp>
#include <caf/io/doorman.hpp>

#include <string>
#include <unordered_map>

namespace peercache::actors {

struct lookup_broker_options {
  std::string cluster;
  incarnation inc; ///< Of this process.
  directory_actor directory;
  caf::io::doorman_ptr doorman; ///< Listening.
};

/// Where clients ask this node's directory shard. Look-ups are what users wait for: over CAF's own
/// protocol they cost four to six round trips of a plain socket (docs/architecture.md), over these
/// frames one and a bit. Threads: CAF's multiplexer. Limits: `frames::payload_bytes_max` per
/// question, `connections_max`; a faulty peer loses its connection and nothing else.
class lookup_connections {
public:
  static constexpr std::size_t connections_max = 4096;

  struct connection {
    std::string received;
    bool greeted = false;
  };

  explicit lookup_connections(std::string greeting) : greeting_(std::move(greeting)) {}

  bool add(caf::io::connection_handle handle);
  void remove(caf::io::connection_handle handle) { connections_.erase(handle); }
  bool has(caf::io::connection_handle handle) const { return connections_.contains(handle); }

  /// Takes bytes in and hands out the questions that are complete. False: close it.
  bool receive(caf::io::connection_handle handle, const char* bytes, std::size_t count,
               std::vector<std::string>& questions);

private:
  const std::string greeting_; ///< The only one that is answered.
  std::unordered_map<caf::io::connection_handle, connection> connections_;
};

caf::behavior run_lookup_broker(caf::io::broker* self, lookup_broker_options options);

} // namespace peercache::actors
