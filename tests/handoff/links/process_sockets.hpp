#pragma once

#include <cstdint>

namespace peercache::handoff::testing {

/// What the kernel says of all TCP connections of this process together.
struct process_sockets {
  std::uint64_t sent_bytes = 0;
  std::uint64_t received_bytes = 0;
  std::uint64_t unread_bytes = 0; ///< Bytes that were received and lie unread in a socket.
  /// Whether all that any end has sent has come to its other end, including the end of the
  /// connection.
  bool all_arrived = true;
  bool operator==(const process_sockets&) const = default;
};

process_sockets look_at_sockets();

} // namespace peercache::handoff::testing
