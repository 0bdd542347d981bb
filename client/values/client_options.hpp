#pragma once

#include "common/call_modes.hpp"
#include "common/tls_paths.hpp"
#include "rdma/verbs/rail_choice.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace peercache::client {

struct client_options {
  std::string node_host = "127.0.0.1"; ///< Address of this host's peercache-node.
  std::uint16_t node_port = 31998;
  std::string cluster = "peercache";
  /// Certificate, key and CA for the connections to nodes; empty: no TLS. `rails.pages_in_tls` says
  /// whether pages travel under TLS too.
  tls_paths tls;
  std::chrono::milliseconds timeout{2000}; ///< Time for a call that names no deadline.
  verify_mode verify_own_host = verify_mode::always;
  verify_mode verify_tcp = verify_mode::always;
  std::uint32_t verify_sample = 64; ///< With `sample`: one page in this many is compared.
  duplicate_mode duplicate = duplicate_mode::skip;
  std::uint32_t channels_per_peer_max = 16;
  /// Longest time for connecting to a peer whose pages are read; when it has passed, the reads
  /// fail.
  std::chrono::milliseconds page_connect_timeout{500};
  std::uint64_t location_cache_keys = 1u << 20; ///< Keys in the location cache; 0 switches it off.
  /// Most bytes that are set and not yet acknowledged by the node. An eighth of the node's pool is
  /// the limit in any case; one set always fits.
  std::uint64_t unacknowledged_bytes_max = 1u << 30;
  /// Whether look-ups that ask several owners at once may travel by datagram (UDP).
  bool lookup_datagrams = true;
  rdma::rail_settings rails; ///< Devices that fetch pages of other hosts, if any.
  verify_mode verify_rdma = verify_mode::sample;
  /// Bytes of bounce memory per rail, for READs into memory that is not registered.
  std::size_t bounce_bytes = 32u << 20;
  /// Whether `connect` waits for the node. False: all calls miss until the node is found, as they
  /// do while a lost node is away.
  bool wait_for_node = true;
};

} // namespace peercache::client
