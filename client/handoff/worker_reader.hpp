#pragma once

#include "client/handoff/worker_options.hpp"
#include "client/read/read_plane.hpp"
#include "client/values/client_options.hpp"

#include <memory>
#include <utility>

namespace peercache::client {

/// Makes the planes by which a worker with these options reads the memory of other workers. Errors:
/// as `read_plane::create`.
/// @param tls TLS of the connections to other workers; null: they are plain
inline result<std::unique_ptr<read_plane>>
reader_of(const worker_options& options, std::shared_ptr<net::tls_context> tls = nullptr) {
  client_options reader;
  reader.rails = options.rails;
  reader.channels_per_peer_max = options.channels_per_peer_max;
  reader.page_connect_timeout = options.page_connect_timeout;
  reader.bounce_bytes = options.bounce_bytes;
  return read_plane::create(reader, gpu_of(options), std::move(tls));
}

} // namespace peercache::client
