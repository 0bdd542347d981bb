#pragma once

#include <cstdint>

namespace peercache::rdma::verbs {

/// Settings of the network path, made by an operator; all queue pairs of a process have the same
/// settings.
struct path_options {
  std::uint8_t traffic_class = 0;
  std::uint8_t service_level = 0;
  std::uint8_t hop_limit = 64; ///< Most routers that a packet may pass.
  /// A packet that is not acknowledged is sent again after 4.096 µs × 2^timeout, up to `retries`
  /// times. The nominal time of all tries must stay under 1 s; a provider may take four times as
  /// long.
  std::uint8_t timeout = 14;
  /// How often a packet is sent again, 1..6: 7 means for ever on some providers.
  std::uint8_t retries = 3;
  /// How often a packet is sent again after the answer that the receiver is not ready (RNR), 0..6:
  /// 7 means for ever. READs get no such answer.
  std::uint8_t rnr_retries = 3;
};

} // namespace peercache::rdma::verbs
