#pragma once

#include "client/handoff/worker_options.hpp"
#include "client/read_plane.hpp"

#include <memory>

namespace peercache::client {

/// How a worker with these options reads the memory of others. Errors: as `read_plane::create`.
inline result<std::unique_ptr<read_plane>> reader_of(const worker_options& options) {
  client_options reader;
  reader.rails = options.rails;
  reader.channels_per_peer_max = options.channels_per_peer_max;
  reader.page_connect_timeout = options.page_connect_timeout;
  reader.bounce_bytes = options.bounce_bytes;
  return read_plane::create(reader, gpu_of(options));
}

} // namespace peercache::client
