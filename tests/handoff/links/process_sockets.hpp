#pragma once

#include <cstdint>

namespace peercache::handoff::testing {

/// The state of all TCP connections of this process, as the kernel tells it.
struct process_sockets {
  std::uint64_t sent_bytes = 0;
  std::uint64_t received_bytes = 0;
  std::uint64_t unread_bytes = 0; ///< Bytes that have arrived at a socket and were not yet read.
  /// Whether everything that was sent has arrived at the other end, ends of connections included.
  bool all_arrived = true;
  bool operator==(const process_sockets&) const = default;
};

process_sockets look_at_sockets();

} // namespace peercache::handoff::testing
