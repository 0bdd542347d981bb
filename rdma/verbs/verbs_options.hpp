#pragma once

#include "common/ids.hpp"
#include "net/socket.hpp"
#include "net/tls_context.hpp"
#include "rdma/channel_options.hpp"
#include "rdma/verbs/queue_pair.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace peercache::rdma {

/// Options of the reading side of one rail.
struct verbs_data_plane_options {
  channel_plane_options channels;
  verbs::path_options path;
  std::uint8_t rail = 0; ///< Index of this rail among the rails of the process.
  /// Incarnation of this process; a peer ends the sessions of an older incarnation of the same name
  /// and host.
  incarnation reader;
  std::string name; ///< Name of this process for the peer's log and metrics.
  /// Most work requests of a queue pair; the device may take fewer.
  std::uint32_t send_depth = 512;
  /// Most READs that a queue pair has on the wire; the devices may allow fewer. More READs do not
  /// make a link faster: bytes beyond the link's buffers are lost and sent again.
  std::uint8_t outstanding_reads = 16;
  /// Most work requests of one doorbell. A doorbell costs little beside the time that its bytes
  /// take on the wire, and each leaves one completion.
  std::uint32_t post_chain_max = 32;
  std::uint32_t post_chain_bytes = 64u << 10; ///< Bytes of READs after which a doorbell ends.
  std::size_t bounce_bytes = 32u << 20; ///< Bounce memory, for READs into unregistered memory.
  /// For measuring the cost of validation: entries are not READ, and every page ends as `stale`,
  /// since an unchecked page is never a hit.
  bool payload_only = false;
  net::socket_options socket;
  /// TLS of the handshake with the peer's data port; READs do not go through TLS. Null: the
  /// handshake is plain.
  std::shared_ptr<net::tls_context> tls;
};

} // namespace peercache::rdma
