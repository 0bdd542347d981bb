#pragma once

#include "common/ids.hpp"
#include "net/socket.hpp"
#include "rdma/channel_options.hpp"
#include "rdma/verbs/queue_pair.hpp"

#include <cstdint>
#include <string>

namespace peercache::rdma {

/// The reading side of one rail.
struct verbs_data_plane_options {
  channel_plane_options channels;
  verbs::path_options path;
  std::uint8_t rail = 0; ///< Index of this rail in the process.
  incarnation reader;    ///< This process; a peer ends the sessions of an older one of its name.
  std::string name;      ///< This process's name, for the peer's log and metrics.
  std::uint32_t send_depth = 512; ///< Work requests of a queue pair; the device may have less.
  /// READs that a queue pair has on the wire; the devices may allow fewer. More do not make a link
  /// faster, and what is under way beyond its buffers is lost and sent again.
  std::uint8_t outstanding_reads = 16;
  /// Work requests of one doorbell, and the bytes after which it ends: a doorbell costs little
  /// beside the time that those take on the wire, and each leaves one completion.
  std::uint32_t post_chain_max = 32;
  std::uint32_t post_chain_bytes = 64u << 10;
  std::size_t bounce_bytes = 32u << 20; ///< Bounce memory, for READs into unregistered memory.
  /// Measures the cost of validation: entries are not READ, and every page ends as `stale`, since
  /// an unchecked page is never a hit.
  bool payload_only = false;
  net::socket_options socket;
};

} // namespace peercache::rdma
