#pragma once

#include <cstdint>

namespace peercache::rdma::verbs {

/// Path settings of an operator; the same for all queue pairs of a process.
struct path_options {
  std::uint8_t traffic_class = 0;
  std::uint8_t service_level = 0;
  std::uint8_t hop_limit = 64; ///< Routable.
  /// 4.096 µs × 2^timeout until a packet is sent again, `retries` times: together under 1 s.
  std::uint8_t timeout = 14;
  std::uint8_t retries = 3;     ///< 1..6: 7 means for ever on some providers.
  std::uint8_t rnr_retries = 3; ///< 0..6, for the same reason; READs meet no RNR.
};

} // namespace peercache::rdma::verbs
